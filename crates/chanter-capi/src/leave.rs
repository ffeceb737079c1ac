//! Leaving a stack without unwinding: a C function is called so that it may be left from any depth.
//!
//! `enter` saves what a called function must preserve, and calls `body(argument)`. `leave` goes back to the saved place
//! as if that call had returned. Frames in between are forgotten, as with `longjmp`. So they must be C frames, or frames
//! of this crate that have nothing to drop.

use std::ffi::c_void;

/// A place to go back to: the stack pointer in `enter`.
pub(crate) type Place = *mut c_void;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the C interface leaves stacks on x86_64 and aarch64 only");

#[cfg(target_os = "macos")]
macro_rules! symbol {
    ($name:literal) => {
        concat!("_", $name)
    };
}
#[cfg(not(target_os = "macos"))]
macro_rules! symbol {
    ($name:literal) => {
        $name
    };
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".balign 16",
    concat!(symbol!("chanter_c_private_enter"), ":"),
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    // The control words of floating point are preserved, too. The stack is aligned to 16 bytes at the call.
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    "mov [rdx], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "jmp 2f",
    ".balign 16",
    concat!(symbol!("chanter_c_private_leave"), ":"),
    "mov rsp, rdi",
    "2:",
    "ldmxcsr [rsp]",
    "fldcw [rsp + 4]",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".balign 16",
    concat!(symbol!("chanter_c_private_enter"), ":"),
    "stp x29, x30, [sp, #-160]!",
    "mov x29, sp",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "mov x9, sp",
    "str x9, [x2]",
    "mov x9, x0",
    "mov x0, x1",
    "blr x9",
    "b 2f",
    ".balign 16",
    concat!(symbol!("chanter_c_private_leave"), ":"),
    "mov sp, x0",
    "2:",
    "ldp x19, x20, [sp, #16]",
    "ldp x21, x22, [sp, #32]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #64]",
    "ldp x27, x28, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "ldp x29, x30, [sp], #160",
    "ret",
);

unsafe extern "C" {
    #[link_name = "chanter_c_private_enter"]
    fn enter_raw(body: unsafe extern "C" fn(*mut c_void), argument: *mut c_void, place: *mut Place);
    #[link_name = "chanter_c_private_leave"]
    fn leave_raw(place: Place) -> !;
}

/// Calls `body(argument)`, and returns when it returns, or when `leave` is called with the place that was stored.
///
/// # Safety
/// The call `body(argument)` is sound, and `place` may be written.
pub(crate) unsafe fn enter(
    body: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    place: *mut Place,
) {
    // SAFETY: the caller keeps the contract; the assembly preserves what a function has to.
    unsafe { enter_raw(body, argument, place) }
}

/// Goes back to a place.
///
/// # Safety
/// The `enter` that stored the place has not returned, and lies further out on this stack. All frames in between may be
/// forgotten.
pub(crate) unsafe fn leave(place: Place) -> ! {
    // SAFETY: the caller keeps the contract: the registers saved at the place are still there.
    unsafe { leave_raw(place) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Frame {
        place: Place,
        steps: u32,
        leaves: bool,
    }

    unsafe extern "C" fn body(frame: *mut c_void) {
        // SAFETY: the test passes a frame.
        let frame = unsafe { &mut *frame.cast::<Frame>() };
        frame.steps += 1;
        if frame.leaves {
            // SAFETY: `enter` is the caller, and this frame has nothing to drop.
            unsafe { leave(frame.place) };
        }
        frame.steps += 1;
    }

    #[test]
    fn a_body_that_is_left_does_not_go_on() {
        for (leaves, steps) in [(true, 1), (false, 2)] {
            let mut frame = Frame { place: std::ptr::null_mut(), steps: 0, leaves };
            let at = &raw mut frame;
            // SAFETY: `body` takes a frame, and the place lies in it.
            unsafe { enter(body, at.cast(), &raw mut (*at).place) };
            assert_eq!(frame.steps, steps);
        }
    }
}
