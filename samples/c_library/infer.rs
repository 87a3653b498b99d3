// An image through LeNet, in Rust: the C interface declared by hand.
//
//     rustc --edition 2021 -O samples/c_library/infer.rs -L out -l lenet \
//         -C link-arg=-Wl,-rpath,out -o out/infer
//     out/infer < image.raw
use std::ffi::{c_char, c_void, CStr};
use std::io::Read;

const ABI: i32 = 1;
const FLOAT32: i32 = 12;

#[repr(C)]
struct Error {
    code: i32,
    length: i32,
    text: [c_char; 1016],
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    nbytes: i64,
    dtype: i32,
    ndim: i32,
    shape: [i64; 8],
}

type Session = c_void;
type Run = unsafe extern "C" fn(
    *mut Session, i32, *const Tensor, i32, *mut Tensor, i32, *mut Error,
) -> i32;

// The table of cellc.h, as far as it is used here.
#[repr(C)]
struct Library {
    numbers: [i32; 4],
    texts: [*const c_char; 4],
    tables: [*const c_void; 2],
    create: unsafe extern "C" fn(
        *const Library, *const c_void, *mut *mut Session, *mut Error,
    ) -> i32,
    destroy: unsafe extern "C" fn(*mut Session),
    reset: *const c_void,
    clone: *const c_void,
    find: unsafe extern "C" fn(*const Library, *const c_char) -> i32,
    measure: Run,
    run: Run,
}

extern "C" {
    fn lenet_library(abi: i32, error: *mut Error) -> *const Library;
}

fn text(error: &Error) -> String {
    unsafe { CStr::from_ptr(error.text.as_ptr()) }.to_string_lossy().into_owned()
}

fn tensor(data: &mut [f32], shape: &[i64]) -> Tensor {
    let mut all = [0; 8];
    all[..shape.len()].copy_from_slice(shape);
    Tensor {
        data: data.as_mut_ptr().cast(),
        nbytes: std::mem::size_of_val(data) as i64,
        dtype: FLOAT32,
        ndim: shape.len() as i32,
        shape: all,
    }
}

fn main() {
    let mut bytes = vec![0u8; 4 * 32 * 32];
    std::io::stdin().read_exact(&mut bytes).expect("an image of 32 x 32 floats");
    let mut image: Vec<f32> =
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let mut scores = [0f32; 10];
    let mut error = Error { code: 0, length: 0, text: [0; 1016] };
    unsafe {
        let net = lenet_library(ABI, &mut error);
        assert!(!net.is_null(), "{}", text(&error));
        let mut session = std::ptr::null_mut();
        let code = ((*net).create)(net, std::ptr::null(), &mut session, &mut error);
        assert!(code == 0, "{}", text(&error));
        let entry = ((*net).find)(net, c"infer".as_ptr());
        let mut x = tensor(&mut image, &[1, 1, 32, 32]);
        let mut y = tensor(&mut scores, &[]);
        let code = ((*net).run)(session, entry, &x, 1, &mut y, 1, &mut error);
        assert!(code == 0, "{}", text(&error));
        for score in scores {
            println!("{score:e}");
        }
        x.shape[0] = 2;
        ((*net).run)(session, entry, &x, 1, &mut y, 1, &mut error);
        println!("{} ({} bytes): {}", error.code, error.length, text(&error));
        ((*net).destroy)(session);
    }
}
