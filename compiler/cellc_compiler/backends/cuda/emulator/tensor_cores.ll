; The groups of products that a warp has under way; `tensor_cores.py` has the products.

define internal void @begin_products(ptr %thread) nounwind {
  %thread->thread.products = 0
  %thread->thread.product_groups = 0
  %thread->thread.fenced = 0
}

define internal ptr @products_of(ptr %warp) nounwind {
  %all = &%warp->thread.launch->launch.queues:i8[{PRODUCTS_AT}]
  ret &%all:%product[zext.i64(%warp->thread.tid >> 5) * {PRODUCTS}]
}

define hidden void @cellc_emulated_fence_products(ptr %thread) nounwind {
  @meet(%thread, @fence_products, null)
}

define internal void @fence_products(ptr %warp) nounwind {
  %warp->thread.fenced = 1
}

define hidden void @cellc_emulated_commit_products(ptr %thread) nounwind {
  @meet(%thread, @commit_products, null)
}

; Each group begins after a fence.
define internal void @commit_products(ptr %warp) nounwind {
  %warp->thread.product_groups += 1
  %warp->thread.fenced = 0
}

; Others run first, so that what they change too early is seen.
define hidden void @cellc_emulated_wait_products(ptr %thread, i32 %but) nounwind {
  @wait(%thread, 0)
  @meet(%thread, @wait_products, inttoptr.ptr(zext.i64(%but)))
}

define internal void @wait_products(ptr %warp) noinline nounwind {
  %launch = %warp->thread.launch
  %but = ptrtoint.i64(%warp->thread.data)
  %groups = %warp->thread.product_groups
  %limit = %groups - %but
  %rank = zext.i64(%warp->thread.tid >> 5 & 3)
  %own = @products_of(%warp)
  %count = %warp->thread.products
  %left.p = alloca i64
  %left.p:i64 = 0
  loop %i < %count, else %done
  %held = &%own:%product[%i]
  %group = %held->product.group
  if %group < %groups, else @fail(%launch, 702); ret void
  if %group < %limit, else %keep
  %a = %held->product.a
  %b = %held->product.b
  %shape = %held->product.shape
  %sum = %held->product.sum
  if i64 @operands(%launch, %a, %b, %shape, %rank, null, null) == %sum, else %changed
  br label %trip
keep:
  %left = %left.p:i64
  ptr {MEMMOVE}(&%own:%product[%left], %held, i64 {PRODUCT_BYTES})
  %left.p:i64 = %left + 1
trip:
  next %i
changed:
  @fail(%launch, 709)
  ret void
done:
  %warp->thread.products = %left.p:i64
}

; A product begins: false where it may not.
define internal i1 @begin_product(ptr %warp, i64 %a, i64 %b, i64 %shape, i64 %sum) nounwind {
  %launch = %warp->thread.launch
  if %warp->thread.fenced == 1, else @fail(%launch, 702); ret false
  if %launch->launch.error == 0, else ret false
  %count = %warp->thread.products
  if %count < {PRODUCTS}, else @fail(%launch, 707); ret false
  %own = @products_of(%warp)
  %own[%count]->product.a = %a
  %own[%count]->product.b = %b
  %own[%count]->product.shape = %shape
  %own[%count]->product.sum = %sum
  %own[%count]->product.group = %warp->thread.product_groups
  %warp->thread.products = %count + 1
  ret true
}

; Whether all lanes give the same first words; else an error.
define internal i1 @is_uniform(ptr %warp, i64 %words) nounwind {
  %first = %warp->thread.data
  loop %i < {WARP}, else %fine
  %data = %warp[%i]->thread.data
  loop %k < %words, else %same
  if %first:i64[%k] == %data:i64[%k], else @fail(%warp->thread.launch, 701); ret false
  next %k
same:
  next %i
fine:
  ret true
}
