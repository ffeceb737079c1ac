//! Calls in arbitrary order, at every place, with arbitrary handles, sizes and numbers. Nothing may crash, hang or be
//! reported as a panic. The seeds are fixed; `ARBITRARY_ROUNDS` makes more of them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;

use chanter_c::*;

/// The words that calls are made with: handles of all ages.
static WORDS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A word: mostly a handle that was once good, sometimes a damaged one, sometimes noise.
    fn word(&mut self) -> u64 {
        let words = WORDS.lock().unwrap();
        let any = if words.is_empty() { 0 } else { words[self.next() as usize % words.len()] };
        drop(words);
        match self.below(16) {
            0 => self.next(),
            1 => any ^ 1 << self.below(64),
            2 => self.below(4),
            _ => any,
        }
    }

    fn deadline(&mut self) -> u64 {
        match self.below(4) {
            0 => chanter_now() + self.below(200_000),
            _ => self.below(2),
        }
    }
}

fn keep(code: c_int, word: u64) {
    if code == 0 {
        let mut words = WORDS.lock().unwrap();
        if words.len() < 200 {
            words.push(word);
        } else {
            let at = word as usize % words.len();
            words[at] = word;
        }
    }
}

unsafe extern "C" fn destroy(value: u64) {
    assert_eq!(value, 7);
}

unsafe extern "C" fn lost(data: *mut c_void) {
    // A callback may send at once, and may not wait.
    let code = chanter_send(data as u64, 7, 0);
    assert_ne!(code, libc::EFAULT);
    assert_eq!(chanter_yield(), libc::EPERM);
}

unsafe extern "C" fn body(seed: *mut c_void) -> *mut c_void {
    let mut random = Random(seed as u64 | 1);
    for _ in 0..random.below(20) {
        call(&mut random);
    }
    seed
}

struct State {
    random: Random,
    operations: [u64; 3],
    left: u64,
}

unsafe extern "C" fn poll(state: *mut c_void, context: *mut CContext) -> c_int {
    // SAFETY: the state is one of ours, and polls do not overlap.
    let state = unsafe { &mut *state.cast::<State>() };
    while state.left > 0 {
        state.left -= 1;
        let at = state.random.below(3) as usize;
        let (op, channel, deadline) =
            (&raw mut state.operations[at], state.random.word(), state.random.deadline());
        let mut value = 0;
        // SAFETY: the context is that of this poll; all places may be written.
        let code = unsafe {
            match state.random.below(6) {
                0 => chanter_poll_recv(context, op, channel, &raw mut value, deadline),
                1 => chanter_op_drop(op),
                2 => chanter_context_value(context, channel as *mut c_void),
                3 => {
                    let mut case = arbitrary_case(&mut state.random);
                    chanter_poll_choose(context, op, &raw mut case, 1, deadline, ptr::null_mut())
                }
                4 => {
                    call(&mut state.random);
                    0
                }
                _ => chanter_context_wake(context),
            }
        };
        assert_ne!(code, libc::EFAULT);
        if state.random.below(4) == 0 {
            // SAFETY: the context is that of this poll.
            assert_eq!(unsafe { chanter_context_wake(context) }, 0);
            return 0;
        }
    }
    1
}

unsafe extern "C" fn drop_state(state: *mut c_void) {
    // SAFETY: the state was given up when the thread was spawned, and this runs once.
    drop(unsafe { Box::from_raw(state.cast::<State>()) });
}

/// A case of any kind.
fn arbitrary_case(random: &mut Random) -> CCase {
    // SAFETY: a case of zeros is a value.
    let mut case: CCase = unsafe { std::mem::zeroed() };
    case.size = match random.below(40) {
        0 => random.below(100) as usize,
        _ => size_of::<CCase>(),
    };
    case.kind = random.below(9) as c_int;
    case.handle = if case.kind >= 6 { random.below(2000) + 1000 } else { random.word() };
    case.value = if case.kind == 5 { random.deadline() } else { 7 };
    if random.below(3) == 0 {
        case.lost = Some(lost);
        case.data = random.word() as *mut c_void;
    }
    if random.below(4) == 0 {
        case.nack = random.word();
    }
    case
}

/// Makes one call.
fn call(random: &mut Random) {
    let (mut made, mut value, mut status) = (0, 0, ptr::null_mut());
    let (word, deadline) = (random.word(), random.deadline());
    // SAFETY: all places may be written, and attributes are null or a struct.
    let code = unsafe {
        match random.below(24) {
            0 | 1 => {
                let capacity = [0, 0, 1, 5, usize::MAX, usize::MAX - 1][random.below(6) as usize];
                let code = chanter_channel_create(capacity, Some(destroy), &raw mut made);
                keep(code, made);
                code
            }
            2 | 3 => chanter_send(word, 7, deadline),
            4 | 5 => {
                let code = chanter_recv(word, &raw mut value, deadline);
                assert!(code != 0 || value == 7);
                code
            }
            6 => chanter_channel_close(word),
            7 => chanter_channel_free(word),
            8 => chanter_channel_length(word, ptr::null_mut()),
            9 => {
                let code = chanter_event_create(&raw mut made);
                keep(code, made);
                code
            }
            10 => chanter_event_set(word, 3),
            11 => chanter_event_wait(word, &raw mut value, deadline),
            12 => chanter_event_free(word),
            13 => {
                let seed = random.next() >> 1;
                let machine = if random.below(3) == 0 { word } else { 0 };
                let code = chanter_thread_spawn(
                    machine,
                    ptr::null(),
                    Some(body),
                    seed as *mut c_void,
                    &raw mut made,
                );
                keep(code, made);
                code
            }
            14 => {
                let random = Random(random.next() | 1);
                let state = Box::into_raw(Box::new(State { random, operations: [0; 3], left: 12 }));
                let code = chanter_thread_spawn_poll(
                    0,
                    ptr::null(),
                    Some(poll),
                    state.cast(),
                    Some(drop_state),
                    &raw mut made,
                );
                keep(code, made);
                if code != 0 {
                    drop_state(state.cast());
                }
                code
            }
            15 => chanter_thread_join(word, &raw mut status, deadline),
            16 => chanter_thread_detach(word),
            17 => chanter_thread_cancel(word),
            18 => {
                let code = chanter_thread_suspend(word);
                chanter_thread_resume(word);
                code
            }
            19 => {
                let mut cases: Vec<CCase> = (0..random.below(4)).map(|_| arbitrary_case(random)).collect();
                let mut chosen = 0;
                chanter_choose(cases.as_mut_ptr(), cases.len(), deadline, &raw mut chosen)
            }
            20 => chanter_op_drop(&raw mut value),
            21 => {
                let code = chanter_key_create(None, &raw mut made);
                keep(code, made);
                chanter_key_set(word, status);
                chanter_key_get(word, &raw mut status);
                code
            }
            22 => {
                let mut attr: CAttr = std::mem::zeroed();
                attr.size = random.below(120) as usize;
                attr.priority = random.next() as c_int;
                attr.flags = random.below(8) as u32;
                let longer: [CAttr; 3] = [attr; 3];
                chanter_thread_spawn(word, longer.as_ptr(), None, status, &raw mut made)
            }
            _ => chanter_yield(),
        }
    };
    assert_ne!(code, libc::EFAULT, "a panic of the library");
}

unsafe extern "C" fn many(seed: *mut c_void) -> *mut c_void {
    let mut random = Random(seed as u64 | 1);
    for _ in 0..400 {
        call(&mut random);
    }
    seed
}

#[test]
fn calls_in_any_order_with_any_words_do_no_harm() {
    let rounds = std::env::var("ARBITRARY_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    for round in 0..rounds {
        let seed = (0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(round + 1)) >> 1;
        let mut machine = 0;
        // SAFETY: `CConfig` of zeros is a value; the machine may be written.
        unsafe {
            let mut config: CConfig = std::mem::zeroed();
            config.size = size_of::<CConfig>();
            config.processors = 1 + (round % 2) as c_int;
            assert_eq!(chanter_machine_create(&raw const config, &raw mut machine), 0);
        }
        keep(0, machine);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(seed ^ 0x5555 | 1);
                (0..200).for_each(|_| call(&mut random));
            });
            // SAFETY: the body takes any word; there is no status to be written.
            let code =
                unsafe { chanter_machine_run(machine, Some(many), seed as *mut c_void, ptr::null_mut()) };
            // It may have been cancelled by one of the others, or joined or detached by word.
            assert!([0, libc::ECANCELED, libc::EINVAL].contains(&code), "{code}");
        });
        assert_eq!(chanter_machine_free(machine), 0);
        for word in std::mem::take(&mut *WORDS.lock().unwrap()) {
            chanter_channel_free(word);
            chanter_event_free(word);
            chanter_key_delete(word);
            // SAFETY: there is no status to be written.
            unsafe { chanter_thread_join(word, ptr::null_mut(), 0) };
        }
    }
}
