; Whether this processor has what the code of a target needs.

define internal i1 @usable(ptr %net) nounwind {
  %one = call { i32, i32, i32, i32 } asm "cpuid", "={ax},={bx},={cx},={dx},0,2"(i32 1, i32 0)
  %features = extractvalue { i32, i32, i32, i32 } %one, 2
  %leaf1 = trunc.i32(%net->net.leaf1)
  if (%features & %leaf1) == %leaf1, else ret false
  %saved = call { i32, i32 } asm "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %states = extractvalue { i32, i32 } %saved, 0
  %needed = trunc.i32(%net->net.states)
  if (%states & %needed) == %needed, else ret false
  %seven = call { i32, i32, i32, i32 } asm "cpuid", "={ax},={bx},={cx},={dx},0,2"(i32 7, i32 0)
  %more = extractvalue { i32, i32, i32, i32 } %seven, 1
  %leaf7 = trunc.i32(%net->net.leaf7)
  if (%more & %leaf7) == %leaf7, else ret false
  ret true
}
