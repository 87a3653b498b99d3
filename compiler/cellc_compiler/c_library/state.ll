; The state of a library besides its sessions, in LLVM's own words.

@cellc_executor = internal global ptr null
@cellc_executor_context = internal global ptr null
@cellc_executor_failed = internal global i32 0
@cellc_guard = internal global i32 0
@cellc_started = internal global i32 0
@cellc_thread_attributes = hidden global [128 x i8] zeroinitializer, align 16
@cellc_real_format = private unnamed_addr constant [5 x i8] c"%.*g\00"
@cellc_unique_format = private unnamed_addr constant [13 x i8] c"%s.%d.%p.new\00"
