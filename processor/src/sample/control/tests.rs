use super::*;

const LIMIT: Duration = Duration::from_secs(300);
const EVERY: u64 = 15;
/// Records that come into the lake between two looks.
const DONE: u64 = 1_500;

fn controller() -> Controller {
    Controller::new(LIMIT, Duration::from_secs(1))
}

fn look(lag: u64, backlog: u64, heaviest: u32) -> Look {
    Look { lag: Duration::from_secs(lag), backlog, heaviest, ..Look::default() }
}

/// A stream whose groups land just when a look is due, and bring in 100 records a second.
struct Stream {
    controller: Controller,
    at: Instant,
    done: u64,
}

impl Stream {
    fn new(controller: Controller) -> Self {
        Self { controller, at: Instant::now(), done: 0 }
    }

    fn lands(&mut self, look: Look) -> Step {
        self.at += Duration::from_secs(EVERY);
        self.done += DONE;
        self.controller.look(self.at, Look { done: self.done, ..look })
    }

    fn all(&mut self, looks: impl IntoIterator<Item = Look>) -> Vec<Step> {
        looks.into_iter().map(|look| self.lands(look)).collect()
    }

    /// One that is sampled, because of 120 seconds of lag.
    fn sampled(heaviest: u32) -> Self {
        let mut stream = Self::new(controller());
        let steps = stream.all([120, 121, 122].map(|lag| look(lag, 100 * lag, heaviest)));
        assert_eq!(steps[2], Step::Begin(256.min(heaviest / 4)));
        stream
    }
}

#[test]
fn a_look_is_due_a_twentieth_of_the_limit_after_the_last() {
    let (mut controller, start) = (controller(), Instant::now());
    assert_eq!(controller.due(), None);
    controller.look(start, look(0, 0, 0));
    assert_eq!(controller.due(), Some(start + Duration::from_secs(EVERY)));
}

#[test]
fn nothing_happens_below_four_tenths_or_before_several_looks_agree() {
    use Step::{Begin, Same};
    let steps = |lags: &[u64]| Stream::new(controller()).all(lags.iter().map(|lag| look(*lag, lag * 100, 0)));
    assert_eq!(steps(&[119, 119, 119, 119, 120, 121, 122]), [Same, Same, Same, Same, Same, Same, Begin(256)]);
    assert_eq!(steps(&[120, 121, 119, 120, 121, 122]), [Same, Same, Same, Same, Same, Begin(256)]);
    assert_eq!(steps(&[211, 212, 213]), [Same, Same, Begin(256)]);
}

#[test]
fn what_will_wait_too_long_is_seen_before_it_does() {
    let mut stream = Stream::new(controller());
    // three times too many: what comes last will wait for more than the limit, what lands now is 50 seconds old
    let looks = [0u64, 10, 20, 30, 40, 50, 60, 70].map(|lag| look(lag, lag * 1_000, 0));
    let steps = stream.all(looks);
    assert!(steps[6..].iter().any(|step| matches!(step, Step::Begin(_))), "{steps:?}");
    // as many that are young are no backlog of long
    let young = [10, 10, 10, 10, 10].map(|lag| look(lag, 60_000, 0));
    assert!(Stream::new(controller()).all(young).iter().all(|step| *step == Step::Same));
}

#[test]
fn the_cap_goes_down_while_the_backlog_does_not_drain() {
    use Step::{Down, Same};
    let mut stream = Stream::sampled(5_000);
    let high = |lag: u64, heaviest| look(lag, lag * 100, heaviest);
    // the first group was read before the step; then two are to agree
    assert_eq!(stream.all([high(130, 5_000), high(135, 5_000), high(140, 5_000)]), [Same, Same, Down(64)]);
    assert_eq!(stream.all([high(150, 40), high(155, 40), high(154, 40)]), [Same, Same, Down(20)], "it falls");
    assert_eq!(stream.all([high(155, 40), high(160, 40), high(165, 40)]), [Same, Same, Down(5)]);
    assert_eq!(stream.all([high(165, 40), high(166, 40), high(170, 40)]), [Same, Same, Down(1)]);
    assert_eq!(stream.all([high(170, 40), high(175, 40), high(180, 40)]), [Same, Same, Same], "no lower than one");
}

#[test]
fn a_backlog_that_drains_by_itself_is_left_alone_and_one_that_drains_too_slowly_is_not() {
    let falling = |by: u64| (0..8).map(move |n| look(7_200 - by * n, (7_200 - by * n) * 100, 0));
    // two hours behind after a stop: gone within the limit, as it looks
    let soon = Stream::new(controller()).all(falling(800));
    assert!(soon.iter().all(|step| *step == Step::Same), "{soon:?}");
    let late = Stream::new(controller()).all(falling(10));
    assert_eq!(late[2], Step::Begin(256), "{late:?}");
    let mut urgent = Stream::new(controller());
    let steps = urgent.all([260, 230, 200, 170, 140, 110, 80].map(|lag| look(lag, lag * 100, 0)));
    assert!(steps.iter().all(|step| *step == Step::Same), "{steps:?}");
}

#[test]
fn clicks_that_come_late_are_no_backlog() {
    let mut stream = Stream::new(controller());
    let steps = stream.all((0..40).map(|n| look(if n % 3 == 0 { 1 } else { 7_200 }, 40, 0)));
    assert!(steps.iter().all(|step| *step == Step::Same), "{steps:?}");
}

#[test]
fn after_the_peak_the_cap_doubles_after_each_rest_until_nothing_reaches_it() {
    use Step::{End, Same, Up};
    let mut stream = Stream::sampled(400);
    // as much is offered as can be borne; a rest is two looks
    let calm = [900, 900, 900, 900, 900, 350, 350].map(|heaviest| look(3, 0, heaviest));
    assert_eq!(stream.all(calm), [Same, Same, Up(200), Same, Up(400), Same, End]);
    assert_eq!(stream.controller.cap(), None);
}

#[test]
fn once_clearly_less_comes_all_is_kept_again_at_once() {
    let mut stream = Stream::sampled(4_000);
    stream.lands(look(3, 0, 4_000));
    let (at, done) = (stream.at, stream.done);
    let calm = |n: u64| Look { done: done + 1_000 * n, ..look(3, 0, 4_000) };
    let steps: Vec<Step> =
        (1..4).map(|n| stream.controller.look(at + Duration::from_secs(EVERY * n), calm(n))).collect();
    assert!(steps.contains(&Step::End), "{steps:?}");
}

#[test]
fn between_low_and_high_nothing_changes_and_calm_begins_anew() {
    let mut stream = Stream::sampled(400);
    let got = stream.all([3, 3, 60, 3, 60, 100, 119].map(|lag| look(lag, 100 * lag, 400)));
    assert!(got.iter().all(|step| *step == Step::Same), "{got:?}");
    assert_eq!(stream.controller.cap(), Some(100));
}

#[test]
fn a_short_limit_knows_what_is_normal() {
    let controller = Controller::new(Duration::from_secs(6), Duration::from_millis(800));
    assert_eq!(controller.low, Duration::from_millis(1_600));
    assert_eq!(Controller::new(Duration::from_secs(3), Duration::from_secs(9)).low, Duration::from_secs(1));
}
