; Sessions, their weights and files, and threads; see `texts.ll`.
;
; Sessions share a `base` and count its users: the file of weights, mapped, and precomputed blocks
; of weights that no entry updates. All else is in the one block of memory of a session, at places
; that were chosen when the library was made, and in the temporaries of each program, which only
; grow.

define internal void @lock() nounwind {
again:
  %pair = cmpxchg ptr @cellc_guard, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  if not %won, else ret void
  %rc = i32 {sched_yield}()
  br label %again
}

define internal void @unlock() nounwind {
  store atomic i32 0, ptr @cellc_guard release, align 4
}

; Set the number of threads; 0: those that this process may use, if no number was given before.
define internal void @threads(i32 %count) nounwind {
  %mask = alloca [1024 x i8], align 8
  @lock()
  if @cellc_started:i32 == 0, else %begun
  %rc1 = i32 {pthread_attr_init}(@cellc_thread_attributes)
  %rc2 = i32 {pthread_attr_setdetachstate}(@cellc_thread_attributes, i32 1)
  %rc3 = i32 {pthread_attr_setstacksize}(@cellc_thread_attributes, i64 {STACK})
begun:
  %usable = alloca i64
  %usable:i64 = 0
  ptr {memset}(%mask, i32 0, i64 1024)
  %rc4 = i32 {sched_getaffinity}(i32 0, i64 1024, %mask)
  loop %i < 128, else %counted
  %bits = %mask:i64[%i]
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %usable:i64 += %ones
  next %i
counted:
  %cpus = %usable:i64 > 0 ? trunc.i32(%usable:i64) : 1
  if %count > 0 | @cellc_started:i32 == 0, else %out
  %wanted = %count > 0 ? %count : %cpus
  void @cellc_pool_configure(%wanted, %wanted <= %cpus ? i32 2000 : 0)
  @cellc_started:i32 = 1
out:
  @unlock()
}

define hidden i32 @cellc_set_threads(ptr %library, i32 %count, ptr %error) nounwind {
  if %count >= 1 & %count <= 1024, else %refused
  @threads(%count)
  ret @outcome(%error, 0)
refused:
  ret @bad_threads(%count, %error)
}

define internal i32 @bad_threads(i32 %count, ptr %error) nounwind {
  tell {ARGUMENT}, "The number of threads must be between 1 and 1024, but got ",
       count(sext.i64(%count)), "."
}

define hidden void @cellc_set_executor(ptr %library, ptr %executor, ptr %context) nounwind {
  @cellc_executor_context:ptr = %context
  store atomic i32 0, ptr @cellc_executor_failed release, align 4
  store atomic ptr %executor, ptr @cellc_executor release, align 8
}

; A session over what is shared, with the first values of the weights; null: no memory.
define internal ptr @session_over(ptr %base) nounwind {
  %memory = @memory(@cellc_net->net.session_bytes)
  if %memory != null, else ret null
  %memory->session.owner = @cellc_net
  %memory->session.base = %base
  %memory->session.weights = &%memory:i8[@cellc_net->net.weights_at]
  %memory->session.versions = &%memory:i8[@cellc_net->net.versions_at]
  %memory->session.pointers = &%memory:i8[@cellc_net->net.pointers_at]
  %weights = %memory->session.weights
  %table = @cellc_net->net.weights
  %data = %base->base.data
  loop %w < @cellc_net->net.nweights, else ret %memory
  %held = &%table:%held[%w]
  %first = &%data:i8[%held->held.offset]
  %weights:ptr[%w] = %first
  if %held->held.own_at >= 0, else %shared
  %own = &%memory:i8[%held->held.own_at]
  %weights:ptr[%w] = %own
  ptr {memcpy}(%own, %first, @weight_bytes(%w))
shared:
  next %w
}

define internal i64 @weight_bytes(i64 %w) nounwind {
  ret @cellc_net->net.library->library.weights[%w]->weight.nbytes
}

define internal void @release(ptr %base) nounwind {
  %count = &%base->base.references
  %had = atomicrmw sub ptr %count, i64 1 acq_rel
  if %had == 1, else ret void
  if %base->base.map != null, else %unmapped
  i32 {munmap}(%base->base.map, %base->base.map_bytes)
unmapped:
  void {free}(%base)
}

define hidden i32 @cellc_create(ptr %library, ptr %options, ptr %out, ptr %error) nounwind {
  if %out != null, else ret @no_place(%error)
  %out:ptr = null
  %name = @cellc_net->net.library->library.name
  if @usable(@cellc_net), else tell {PROCESSOR}, "The library '", %name, "' is compiled for ",
      @cellc_net->net.targets, ", whose instructions this processor does not have."
  %base = @memory(@cellc_net->net.base_bytes)
  if %base != null, else ret @no_memory(%error)
  %base->base.references = 1
  %base->base.data = @cellc_net->net.data
  %path.at = alloca ptr
  %threads.at = alloca i32
  %path.at:ptr = null
  %threads.at:i32 = 0
  if %options != null, else %options.read
  %path.at:ptr = %options->options.weights
  %threads.at:i32 = %options->options.threads
  %asked = %threads.at:i32
  if %asked >= 0 & %asked <= 1024, else @release(%base); ret @bad_threads(%asked, %error)
options.read:
  if %path.at:ptr != null, else %embedded
  %rc1 = @map_weights(%base, %path.at:ptr, %error)
  if %rc1 == 0, else @release(%base); ret %rc1
embedded:
  %needs = @cellc_net->net.nweights
  if %needs == 0 | %base->base.data != null, else @release(%base); tell {WEIGHTS},
      "The library '", %name, "' holds no weights: give its file of weights in the options."
  %session = @session_over(%base)
  if %session != null, else @release(%base); ret @no_memory(%error)
  @threads(%threads.at:i32)
  %blocks = @cellc_net->net.blocks
  loop %b < @cellc_net->net.nblocks, else %made
  %block = &%blocks:%block[%b]
  if %block->block.shared != 0, else %own
  %rc2 = @refresh(%session, %block, %error)
  if %rc2 == 0, else @cellc_destroy(%session); ret %rc2
own:
  next %b
made:
  %out:ptr = %session
  ret @outcome(%error, 0)
}

define internal i32 @no_place(ptr %error) nounwind {
  tell {ARGUMENT}, "The place for the session must not be NULL."
}

define hidden void @cellc_destroy(ptr %session) nounwind {
  if @belongs(%session, null) == 0, else ret void
  %session->session.owner = null
  %programs = @cellc_net->net.programs
  loop %p < @cellc_net->net.nprograms, else %rest
  %state = &%session:i8[%programs[%p]->program.state_at]
  void {free}(%state->state.arena)
  next %p
rest:
  void {free}(%session->session.bounce)
  @release(%session->session.base)
  void {free}(%session)
}

; Copy the weights that calls update from those of another session, or their first values.
define internal void @copy_own(ptr %session, ptr %other) nounwind {
  %table = @cellc_net->net.weights
  %weights = %session->session.weights
  %versions = %session->session.versions
  %data = %session->session.base->base.data
  loop %w < @cellc_net->net.nweights, else %end
  %held = &%table:%held[%w]
  if %held->held.own_at >= 0, else %shared
  %from = alloca ptr
  %from:ptr = &%data:i8[%held->held.offset]
  if %other != null, else %first
  %from:ptr = &%other:i8[%held->held.own_at]
first:
  ptr {memcpy}(%weights:ptr[%w], %from:ptr, @weight_bytes(%w))
  %versions:i64[%w] += 1
shared:
  next %w
}

define hidden i32 @cellc_reset(ptr %session, ptr %error) nounwind {
  try @enter(%session, %error)
  @copy_own(%session, null)
  @leave(%session)
  ret @outcome(%error, 0)
}

define hidden i32 @cellc_clone(ptr %session, ptr %out, ptr %error) nounwind {
  if %out != null, else ret @no_place(%error)
  %out:ptr = null
  try @enter(%session, %error)
  %base = %session->session.base
  %made = @session_over(%base)
  if %made != null, else @leave(%session); ret @no_memory(%error)
  %references = &%base->base.references
  %had = atomicrmw add ptr %references, i64 1 acq_rel
  @copy_own(%made, %session)
  @leave(%session)
  %out:ptr = %made
  ret @outcome(%error, 0)
}

define hidden i32 @cellc_weight(ptr %session, ptr %name, ptr %tensor, ptr %error) nounwind {
  try @belongs(%session, %error)
  if %name != null & %tensor != null,
      else tell {ARGUMENT}, "The name of a weight and the place for it must not be NULL."
  %table = @cellc_net->net.library->library.weights
  %weights = %session->session.weights
  loop %w < @cellc_net->net.nweights, else ret @no_weight(%name, %error)
  %weight = &%table:%weight[%w]
  if i32 {strcmp}(%weight->weight.name, %name) == 0, else %another
  %tensor->tensor.data = %weights:ptr[%w]
  %tensor->tensor.nbytes = %weight->weight.nbytes
  %tensor->tensor.dtype = %weight->weight.dtype
  %tensor->tensor.ndim = %weight->weight.ndim
  %dims = &%tensor->tensor.shape
  ptr {memcpy}(%dims, %weight->weight.shape, zext.i64(%weight->weight.ndim) * 8)
  ret @outcome(%error, 0)
another:
  next %w
}

define internal i32 @no_weight(ptr %name, ptr %error) nounwind {
  tell {ARGUMENT}, "There is no weight '", %name, "'."
}

; Map a file of weights, which must be of this network.
define internal i32 @map_weights(ptr %base, ptr %path, ptr %error) nounwind {
  if @mode_of(%path) >= 0, else ret @irregular("read", %path, %error)
  %file = i32 {open}(%path, i32 {O_READ}, i32 0)
  if %file >= 0, else ret @file_error("read", %path, %error)
  %size = i64 {lseek}(%file, i64 0, i32 2)
  %head.bytes = @cellc_net->net.head_bytes
  if %size >= %head.bytes, else i32 {close}(%file); ret @other_weights(%path, %error)
  ; 1: PROT_READ, MAP_SHARED
  %map = ptr {mmap}(null, %size, i32 1, i32 1, %file, i64 0)
  if ptrtoint.i64(%map) != -1, else i32 {close}(%file); ret @file_error("read", %path, %error)
  i32 {close}(%file)
  %base->base.map = %map
  %base->base.map_bytes = %size
  %base->base.data = &%map:i8[%head.bytes]
  if i32 {memcmp}(%map, @cellc_net->net.head, %head.bytes) == 0,
      else ret @other_weights(%path, %error)
  if %size == @cellc_net->net.file_bytes, else tell {WEIGHTS}, "The file '", %path,
      "' must have ", count(@cellc_net->net.file_bytes), " bytes, but has ", count(%size), "."
  ret 0
}

define internal i32 @other_weights(ptr %path, ptr %error) nounwind {
  %library = @cellc_net->net.library
  tell {WEIGHTS}, "The file '", %path, "' must hold the weights ", %library->library.hash, " of ",
       %library->library.name, ", but holds others."
}

define internal i32 @irregular(ptr %verb, ptr %path, ptr %error) nounwind {
  ret @cannot(%verb, %path, "it is not a regular file", %error)
}

define internal i32 @file_error(ptr %verb, ptr %path, ptr %error) nounwind {
  %number = ptr {__errno_location}()
  %why = ptr {strerror}(%number:i32)
  ret @cannot(%verb, %path, %why, %error)
}

define internal i32 @cannot(ptr %verb, ptr %path, ptr %why, ptr %error) nounwind {
  tell {FILE}, "The file '", %path, "' cannot be ",
       i32 {strcmp}(%verb, "read") == 0 ? "read: " : "written: ", %why, "."
}

; All bytes to a file; whether they are there.
define internal i1 @written(i32 %file, ptr %data, i64 %nbytes) nounwind {
  %at = alloca i64
  %at:i64 = 0
again:
  %done = %at:i64
  if %done < %nbytes, else ret true
  %some = i64 {write}(%file, &%data:i8[%done], %nbytes - %done)
  if %some <= 0, else %more
  %number = ptr {__errno_location}()
  if %some < 0 & %number:i32 == 4, else ret false
  br label %again
more:
  %at:i64 += %some
  br label %again
}

; The permissions of a file, or of a new one where there is none; negative: no regular file.
define internal i32 @mode_of(ptr %path) nounwind {
  %found = alloca [256 x i8], align 8
  %call = {syscall}:ptr
  ; -100: AT_FDCWD
  %rc = call i64 (i64, ...) %call(
      i64 {STAT}, i64 -100, ptr %path, ptr %found, i64 0)
  if %rc == 0, else ret 438
  %mode = %found:i32[{MODE_AT}]
  if (%mode & 61440) == 32768, else ret -1
  ret %mode & 511
}

; The weights as they are now, as a safetensors file: whole, or as the file was. A symbolic link
; stays one, and permissions stay.
define hidden i32 @cellc_save(ptr %session, ptr %path, ptr %error) nounwind {
  try @enter(%session, %error)
  %rc = @save_now(%session, %path, %error)
  @leave(%session)
  ret %rc
}

define internal i32 @save_now(ptr %session, ptr %path, ptr %error) nounwind {
  %name = alloca [4096 x i8]
  %real = alloca [4096 x i8]
  %mode.at = alloca i32
  if %path != null, else ret @no_path(%error)
  %resolved = ptr {realpath}(%path, %real)
  %to = %resolved != null ? %resolved : %path
  %mode.at:i32 = @mode_of(%to)
  if %mode.at:i32 >= 0, else ret @irregular("write", %path, %error)
  %pid = i32 {getpid}()
  %print = {snprintf}:ptr
  %length = call i32 (ptr, i64, ptr, ...) %print(
      ptr %name, i64 4096, ptr @cellc_unique_format, ptr %to, i32 %pid, ptr %session)
  if %length >= 0 & %length < 4096, else ret @no_path(%error)
  %file = i32 {open}(%name, i32 {O_WRITE}, %mode.at:i32)
  if %file >= 0, else ret @file_error("write", %path, %error)
  %bad = alloca i64
  %bad:i64 = zext.i64(@written(%file, @cellc_net->net.head, @cellc_net->net.head_bytes) ^ true)
  %weights = %session->session.weights
  loop %w < @cellc_net->net.nweights, else %all
  if %bad:i64 == 0, else %all
  %bad:i64 += zext.i64(@written(%file, %weights:ptr[%w], @weight_bytes(%w)) ^ true)
  next %w
all:
  if %bad:i64 == 0, else %failed
  if i32 {fsync}(%file) == 0, else %failed
  %rc1 = i32 {close}(%file)
  if i32 {rename}(%name, %to) == 0, else %unnamed
  @sync_folder(%name)
  ret @outcome(%error, 0)
failed:
  %rc2 = @file_error("write", %path, %error)
  i32 {close}(%file)
  i32 {unlink}(%name)
  ret %rc2
unnamed:
  %rc3 = @file_error("write", %path, %error)
  i32 {unlink}(%name)
  ret %rc3
}

; Let the disk have the new name in the folder of a file.
define internal void @sync_folder(ptr %name) nounwind {
  %slash = alloca i64
  %slash:i64 = -1
  loop %i < 4096, else %found
  %c = %name:i8[%i]
  if %c != 0, else %found
  if %c == 47, else %other
  %slash:i64 = %i
other:
  next %i
found:
  %last = %slash:i64
  if %last >= 0, else %here
  %name:i8[%last + 1] = 0
  br label %open
here:
  %name:i8 = 46
  %name:i8[1] = 0
open:
  %folder = i32 {open}(%name, i32 {O_READ}, i32 0)
  if %folder >= 0, else ret void
  i32 {fsync}(%folder)
  i32 {close}(%folder)
}

define internal i32 @no_path(ptr %error) nounwind {
  tell {ARGUMENT}, "The path must be one of fewer than 4000 bytes."
}

; Choose the code of a target, for good: the first that this processor runs, or that which
; CELLC_TARGET names. Where none runs, `create` says so.
define internal i32 @pick(ptr %error) nounwind {
  if @cellc_picked:i32 == 0, else ret 0
  %wanted = ptr {getenv}("CELLC_TARGET")
  loop %i < {NETS}, else %none
  %net = &@cellc_nets:%net[%i]
  if %wanted != null, else %any
  if i32 {strcmp}(%wanted, %net->net.library->library.target) == 0, else %another
  if @usable(%net), else tell {PROCESSOR}, "CELLC_TARGET is ", %wanted,
      ", whose instructions this processor does not have."
  br label %found
any:
  if @usable(%net), else %another
found:
  ptr {memcpy}(@cellc_net, %net, i64 {NET_BYTES})
  @cellc_picked:i32 = 1
  ret 0
another:
  next %i
none:
  if %wanted == null, else tell {PROCESSOR}, "CELLC_TARGET is ", %wanted, ", but the library '",
      @cellc_net->net.library->library.name, "' is compiled for ", @cellc_net->net.targets, "."
  ret 0
}

define hidden ptr @cellc_get_library(i32 %abi, ptr %error) nounwind {
  if %abi == {ABI_VERSION}, else %other
  @lock()
  %rc = @pick(%error)
  @unlock()
  if %rc == 0, else ret null
  %rc2 = @outcome(%error, 0)
  ret @cellc_net->net.library
other:
  %rc1 = @outcome(%error, {ABI})
  say "The library has version {ABI_VERSION} of the interface, but the program asks for ",
       count(sext.i64(%abi)), "."
  ret null
}
