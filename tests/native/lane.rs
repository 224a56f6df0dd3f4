//! The lane that is chosen where the caller gives none.

use millrace::engine::{Engine, LoadOptions};
use millrace::plan::Lane;
use millrace::plan::tuning::Tuning;

use crate::decode_loop::load;

fn measuring(tuning: Tuning) -> Engine {
    load(&LoadOptions { lane: Lane::Auto, self_test: Some(true), tuning, ..LoadOptions::default() })
}

#[test]
fn a_lane_is_measured_once_and_stays() {
    let engine = measuring(Tuning::default());
    let info = engine.info();
    let choice = info.lane_choice.expect("nobody asked for a lane");
    let rates = choice.rates.expect("they were measured");
    assert!(rates.dot4 > 0.0 && rates.f32 > 0.0 && (rates.f16 > 0.0) == info.adapter.f16(), "{rates:?}");
    assert_eq!((info.lane, choice.lane), (choice.lane, info.lane), "{}", choice.reason);
    // Where the rates' ratios do not decide, the model's own product does.
    match &choice.times[..] {
        [] => assert!(rates.int8() && info.lane == Lane::Fast, "{choice:?}"),
        [fast, other] => {
            let all = |t: &millrace::plan::tuning::LaneTime| t.decode_us + 4.0 * t.prompt_us;
            let expected = if all(other) < 0.9 * all(fast) { other.lane } else { Lane::Fast };
            assert_eq!((fast.lane, info.lane), (Lane::Fast, expected), "{choice:?}");
        }
        times => panic!("{times:?}"),
    }
    // A stored choice decides at the next load, without a new measurement.
    let mut tuning = Tuning::default();
    engine.remember(&mut tuning);
    let kept = Tuning::parse(&tuning.text().replace(choice.lane.name(), "exact"));
    let again = measuring(kept).info();
    assert_eq!((again.lane, again.lane_choice.map(|c| c.rates)), (Lane::Exact, Some(Some(rates))));
}

#[test]
fn a_gpu_in_software_is_not_measured_unasked_and_a_lane_that_is_asked_for_needs_no_reason() {
    let engine = load(&LoadOptions::default());
    let info = engine.info();
    if info.adapter.software {
        let choice = info.lane_choice.expect("nobody asked for a lane");
        assert_eq!((info.lane, choice.rates), (Lane::Fast, None), "{}", choice.reason);
        assert!(choice.reason.contains("software"), "{}", choice.reason);
    }
    let float = load(&LoadOptions { lane: Lane::Float, ..LoadOptions::default() }).info();
    assert_eq!((float.lane, float.lane_choice), (Lane::Float, None));
}
