; The call of a program: its memory, its slots, blocks to precompute, its results and errors; see
; `texts.ll`.

; Give a program temporaries of this size; whether there is the memory.
define internal i1 @room(ptr %state, i64 %nbytes) nounwind {
  if %state->state.arena == null | %state->state.capacity < %nbytes, else ret true
  void {free}(%state->state.arena)
  %state->state.arena = null
  %fresh = @memory(%nbytes)
  if %fresh != null, else ret false
  %state->state.arena = %fresh
  %state->state.capacity = %nbytes
  ret true
}

; Zeroed memory at a multiple of 64, or null.
define internal ptr @memory(i64 %nbytes) nounwind {
  %out = alloca ptr
  %some = %nbytes > 64 ? %nbytes : 64
  if i32 {posix_memalign}(%out, i64 64, %some) == 0, else ret null
  ptr {memset}(%out:ptr, i32 0, %some)
  ret %out:ptr
}

define internal ptr @block_at(ptr %session, ptr %block) nounwind {
  %from = %block->block.shared != 0 ? %session->session.base : %session
  %at = &%from:i8[%block->block.at]
  ret %at
}

; Fill the slots: inputs and outputs are where `pointers` says.
define internal void @fill_slots(ptr %session, ptr %program) nounwind {
  %slots = &%session:i8[%program->program.slots_at]
  %table = %program->program.slots
  %pointers = %session->session.pointers
  %results = &%pointers:ptr[@cellc_net->net.npointers]
  %weights = %session->session.weights
  %blocks = @cellc_net->net.blocks
  loop %i < %program->program.nslots, else %end
  %slot = &%table:%slot[%i]
  %k = %slot->slot.number
  %kind = %slot->slot.kind
  switch i64 %kind, label %kept [ i64 0, label %input i64 1, label %output
      i64 2, label %weight i64 3, label %alias ]
input:
  %slots:ptr[%i] = %pointers:ptr[%k]
  br label %filled
output:
  %slots:ptr[%i] = %results:ptr[%k]
  br label %filled
weight:
  %slots:ptr[%i] = %weights:ptr[%k]
  br label %filled
alias:
  %slots:ptr[%i] = %slots:ptr[%k]
  br label %filled
kept:
  %slots:ptr[%i] = @block_at(%session, &%blocks:%block[%k])
filled:
  next %i
}

; Fill a precomputed block again if a weight that it follows from has changed.
define internal i32 @refresh(ptr %session, ptr %block, ptr %error) nounwind {
  %stamp = alloca i64
  %stamp:i64 = 1
  %versions = %session->session.versions
  %weights = %block->block.weights
  loop %w < %block->block.nweights, else %known
  %stamp:i64 += %versions:i64[%weights:i64[%w]]
  next %w
known:
  %seen = &%session:i8[%block->block.seen_at]
  %now = %stamp:i64
  if %seen:i64 != %now, else ret 0
  %program = %block->block.program
  %state = &%session:i8[%program->program.state_at]
  if @room(%state, %program->program.ahead_bytes), else ret @no_memory(%error)
  @fill_slots(%session, %program)
  %slots = &%session:i8[%program->program.slots_at]
  %ahead = %program->program.ahead
  %arena = %state->state.arena
  if i32 %ahead(%slots, %arena, %program->program.constants, %block->block.part) == 0, else %failed
  %seen:i64 = %now
  ret 0
failed:
  tell {RUN}, "The weights cannot be prepared."
}

define internal i32 @no_memory(ptr %error) nounwind {
  tell {MEMORY}, "The system gives no memory."
}

; Where each output goes at first: large ones begin at a multiple of 64 bytes. False: no memory.
define internal i1 @aim(ptr %session, ptr %program) nounwind {
  %total = alloca i64
  %total:i64 = 0
  %n = @cellc_net->net.npointers
  %pointers = %session->session.pointers
  %results = &%pointers:ptr[%n]
  %reals = &%pointers:ptr[%n * 2]
  %table = %program->program.slots
  loop %i < %program->program.nslots, else %sum
  %slot = &%table:%slot[%i]
  if %slot->slot.kind == 1, else %passed
  %k = %slot->slot.number
  %reals:ptr[%k] = null
  if %slot->slot.nbytes >= {LARGE} | %slot->slot.nbytes < 0, else %passed
  if (ptrtoint.i64(%results:ptr[%k]) & 63) != 0, else %passed
  %total:i64 += @result_bytes(%session, %program, %slot) + 63 & -64
  %reals:ptr[%k] = %results:ptr[%k]
passed:
  next %i
sum:
  %need = %total:i64
  if %need != 0, else ret true
  if %need > %session->session.bounce_bytes, else %there
  void {free}(%session->session.bounce)
  %session->session.bounce_bytes = 0
  %fresh = @memory(%need)
  %session->session.bounce = %fresh
  if %fresh != null, else ret false
  %session->session.bounce_bytes = %need
there:
  %total:i64 = 0
  loop %j < %program->program.nslots, else ret true
  %other = &%table:%slot[%j]
  if %other->slot.kind == 1, else %next
  %o = %other->slot.number
  if %reals:ptr[%o] != null, else %next
  %results:ptr[%o] = &%session->session.bounce:i8[%total:i64]
  %total:i64 += @result_bytes(%session, %program, %other) + 63 & -64
next:
  next %j
}

define internal i64 @result_bytes(ptr %session, ptr %program, ptr %slot) nounwind {
  if %slot->slot.nbytes < 0, else ret %slot->slot.nbytes
  %bytes = @cellc_net->net.npointers * 3
  ret %session->session.pointers:i64[%bytes + %slot->slot.number]
}

; Run a program on what `pointers` says.
define internal i32 @run_one(ptr %session, ptr %e, ptr %program, ptr %error) nounwind {
  %state = &%session:i8[%program->program.state_at]
  %open = %program->program.open
  %blocks = @cellc_net->net.blocks
  %kept = %program->program.kept
  if @aim(%session, %program), else ret @no_memory(%error)
  loop %k < %program->program.nkept, else %ready
  %block = &%blocks:%block[%kept:i64[%k]]
  if %block->block.shared == 0, else %current
  try @refresh(%session, %block, %error)
current:
  next %k
ready:
  %need = %open != null ? %state->state.need : %program->program.arena
  if @room(%state, %need), else ret @no_memory(%error)
  @fill_slots(%session, %program)
  %constants.at = alloca ptr
  %constants.at:ptr = %program->program.constants
  if %open != null, else %go
  %constants.at:ptr = &%session:i8[%open->open.constants_at]
go:
  %main = %program->program.main
  %slots = &%session:i8[%program->program.slots_at]
  %rc = i32 %main(%slots, %state->state.arena, %constants.at:ptr)
  %versions = %session->session.versions
  %updated = %program->program.updated
  loop %u < %program->program.nupdated, else %ran
  %w = %updated:i64[%u]
  %versions:i64[%w] += 1
  next %u
ran:
  if %rc == 0, else ret @explain(%session, %e, %program, %rc, %error)
  @deliver(%session, %program)
  ret 0
}

; Copy results to the caller's buffers that do not begin at a multiple of 64 bytes.
define internal void @deliver(ptr %session, ptr %program) nounwind {
  %n = @cellc_net->net.npointers
  %pointers = %session->session.pointers
  %results = &%pointers:ptr[%n]
  %reals = &%pointers:ptr[%n * 2]
  %table = %program->program.slots
  loop %i < %program->program.nslots, else %end
  %slot = &%table:%slot[%i]
  if %slot->slot.kind == 1, else %passed
  %k = %slot->slot.number
  %real = %reals:ptr[%k]
  if %real != null, else %passed
  ptr {memcpy}(%real, %results:ptr[%k], @result_bytes(%session, %program, %slot))
  %results:ptr[%k] = %real
passed:
  next %i
}

; The text of an error that a program has stopped with.
define internal i32 @explain(ptr %session, ptr %e, ptr %program, i32 %number,
                          ptr %error) nounwind {
  %rc = @outcome(%error, {RUN})
  say "For '", %e->entry.name, "', "
  if %number >= 1 & sext.i64(%number) <= %program->program.nmessages, else %unknown
  %message = &%program->program.messages:%message[sext.i64(%number) - 1]
  %pieces = %message->message.pieces
  say %message->message.kind, ": "
  loop %i < %message->message.npieces, else %where
  %piece = &%pieces:%piece[%i]
  if %piece->piece.text == null, else %text
  %shown = %message->message.shown
  @show_value(%session, %program, &%shown:%shown[%piece->piece.value], %error)
  br label %said
text:
  @say(%error, %piece->piece.text)
said:
  next %i
where:
  @say(%error, %message->message.where)
  ret %rc
unknown:
  @say(%error, "the network stopped with an unknown error.")
  ret %rc
}

define internal void @show_value(ptr %session, ptr %program, ptr %shown, ptr %error) nounwind {
  %place = alloca i64
  %count = alloca i64
  %place:i64 = %shown->shown.place
  %count:i64 = %shown->shown.count
  %open = %program->program.open
  if %open != null, else %known
  %cursor = alloca ptr
  %failed = alloca i64
  %cursor:ptr = %shown->shown.code
  %vars = &%session:i8[%open->open.sizes_at]
  %place:i64 = @number(%cursor, %vars, %failed)
  %count:i64 = @number(%cursor, %vars, %failed)
known:
  %state = &%session:i8[%program->program.state_at]
  %arena = %state->state.arena
  @show(%error, %shown->shown.dtype, %shown->shown.ndim, %count:i64, &%arena:i8[%place:i64])
}
