//! Pauses of disguises: they work for a share of the time and rest in between.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use probity_disguise::{Admission, ApplyRequest, Clock, Progress, Spec, Value};

use super::forum::*;

const SECOND: Duration = Duration::from_secs(1);

/// A clock that goes on by a second whenever it is read, and notes who rested.
#[derive(Default)]
struct Ticking {
    now: Mutex<Duration>,
    rests: Mutex<Vec<Duration>>,
}

impl Clock for Ticking {
    fn elapsed(&self) -> Duration {
        let mut now = self.now.lock().unwrap();
        *now += SECOND;
        *now
    }

    fn rest(&self, time: Duration) {
        *self.now.lock().unwrap() += time;
        self.rests.lock().unwrap().push(time);
    }
}

pub(crate) fn chunks_rest_between_their_transactions_and_the_last_does_not() {
    let mut forum = forum();
    let clock = Arc::new(Ticking::default());
    let admission = Admission::new(NonZero::<u32>::MIN);
    let admission = admission.with_share("0.25".parse().unwrap());
    let admission = admission.with_clock(Arc::clone(&clock) as _);
    forum.engine.set_admission(Arc::new(admission));
    let rests = || std::mem::take(&mut *clock.rests.lock().unwrap());
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let request = ApplyRequest {
        spec: &spec,
        user: Some(Value::Int(1)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    let id = forum.engine.chunks().begin(&request).unwrap();
    // One transaction, after which nobody came.
    assert_eq!(rests(), []);
    // Each was read to have taken a second, which makes a rest of three, and of that the next second is over already.
    let each = [2 * SECOND; 2];
    for chunks in 1.. {
        let progress = forum.engine.chunks().proceed(id, 2, time()).unwrap();
        // A chunk looks up what was begun, and goes on with it.
        assert_eq!(rests(), each, "{chunks}");
        if matches!(progress, Progress::Done(_)) {
            assert!(chunks > 4);
            break;
        }
    }
    assert!(forum.reveal(1, id).is_complete());
    assert_eq!(rests(), each[..1]);
    forum.assert_as_before();
}
