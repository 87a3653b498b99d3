; Whether this processor has what the code of a target needs.

define internal i1 @usable(ptr %net) nounwind {
  ret true
}
