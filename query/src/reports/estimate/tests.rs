use super::*;

/// What is kept of clicks at one rate.
fn kept(rows: u64, weight: f64) -> Estimate {
    let (count, excess) = (rows as f64, weight - 1.0);
    Estimate {
        rows,
        weight: count * weight,
        variance: count * weight * excess,
        skew: count * weight * excess * excess,
        doubt: count * (1.0 - 1.0 / weight),
    }
}

#[test]
fn what_was_not_sampled_is_exact() {
    assert_eq!((kept(7, 1.0).clicks(), kept(7, 1.0).interval(1.0)), (7, (7, 7)));
    assert_eq!(Estimate::default().interval(1.0), (0, (0, 0)).1);
}

#[test]
fn a_sample_is_sure_within_its_interval() {
    let sampled = kept(100, 4.0);
    assert_eq!((sampled.clicks(), sampled.interval(4.0)), (400, (337, 472)));
    let few = kept(2, 4.0);
    assert_eq!(few.interval(4.0).0, 2, "what is there is there");
    let both = sampled.plus(few);
    assert_eq!((both.rows, both.clicks()), (102, 408));
    assert_eq!(both.minus(few), sampled);
    let exact = kept(1_000, 1.0);
    let (low, high) = sampled.plus(exact).interval(4.0);
    assert_eq!((low, high), (1_337, 1_472), "what is certain moves the interval and doesn't widen it");
}

#[test]
fn where_nothing_was_kept_there_may_have_been_something() {
    // none of n kept at 2 %: as likely as 2.5 % with n = 182
    let none = (1.0f64 - 0.02).powi(182);
    assert!((0.024..0.026).contains(&none));
    let (low, high) = Estimate::default().interval(50.0);
    assert_eq!((low, high.abs_diff(182) <= 2), (0, true), "{high}");
    let (low, high) = kept(40, 1.0).interval(50.0);
    assert_eq!((low, high.abs_diff(222) <= 2), (40, true), "{high}");
}

/// A generator of random numbers that gives the same ones for ever (SplitMix64).
struct Random(u64);

impl Random {
    /// Below one.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// As likely between 1 and 10 as between 10 and 100.
    fn size(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.share())
    }

    /// How many of `n` are chosen when each is with probability `p`: goes out from the likeliest number to both sides.
    fn chosen(&mut self, n: u64, p: f64) -> u64 {
        if p >= 1.0 || n == 0 {
            return n;
        }
        let odds = p / (1.0 - p);
        let middle = (((n + 1) as f64 * p) as u64).min(n);
        let (mut low, mut high) = (middle, middle);
        let mut below = likelihood(n, p, middle);
        let mut above = below;
        let mut left = self.share() - below;
        while left >= 0.0 && (above > 1e-17 || below > 1e-17) {
            if high < n {
                above *= (n - high) as f64 / (high + 1) as f64 * odds;
                high += 1;
                left -= above;
                if left < 0.0 {
                    return high;
                }
            }
            if low > 0 {
                below *= low as f64 / (n - low + 1) as f64 / odds;
                low -= 1;
                left -= below;
                if left < 0.0 {
                    return low;
                }
            }
            if high == n && low == 0 {
                break;
            }
        }
        middle
    }
}

/// The probability that `k` of `n` are chosen.
fn likelihood(n: u64, p: f64, k: u64) -> f64 {
    let (n, k) = (n as f64, k as f64);
    (ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k) + k * p.ln() + (n - k) * (1.0 - p).ln()).exp()
}

/// Stirling's series, from 20 on.
fn ln_factorial(n: f64) -> f64 {
    if n < 20.0 {
        return (2..=n as u64).map(|i| (i as f64).ln()).sum();
    }
    (n + 0.5) * n.ln() - n + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3))
}

/// The share of intervals that hold the truth, worked out and not drawn.
fn coverage(n: u64, rate: f64) -> f64 {
    let mean = n as f64 * rate;
    let reach = 8.0 * (mean * (1.0 - rate)).sqrt() + 12.0;
    let rows = (mean - reach).max(0.0) as u64..=((mean + reach) as u64).min(n);
    let holds = |rows: &u64| {
        let (low, high) = kept(*rows, 1.0 / rate).interval(1.0 / rate);
        (low..=high).contains(&n)
    };
    rows.filter(holds).map(|rows| likelihood(n, rate, rows)).sum()
}

/// Not of some numbers on average, but of each.
#[test]
fn of_one_rate_every_single_number_is_held_as_often_as_promised() {
    for rate in [0.5, 0.25, 0.1, 0.02, 0.001] {
        for step in 0..160 {
            let expected = 0.3 * 10_000f64.powf(f64::from(step) / 160.0);
            let n = (expected / rate).round().max(1.0) as u64;
            let share = coverage(n, rate);
            // at one half, one row more or less is 1.5 % of all cases: no interval can do better
            let (least, most) = match expected {
                _ if expected < 30.0 => (if rate < 0.5 { 0.94 } else { 0.937 }, 1.0),
                _ => (0.938, 0.963),
            };
            assert!((least..=most).contains(&share), "{n} at {rate}: {share}");
        }
    }
}

/// Rates in force.
enum Rates {
    /// These, with how the clicks are spread over them.
    Spread(&'static [(f64, f64)]),
    /// Those of a peak that comes and goes, as many clicks being kept at any time.
    Peak,
}

const WORLDS: [(&str, Rates); 6] = [
    ("0.5", Rates::Spread(&[(0.5, 1.0)])),
    ("0.1", Rates::Spread(&[(0.1, 1.0)])),
    ("0.02", Rates::Spread(&[(0.02, 1.0)])),
    ("1 to 0.02, as many kept at each", Rates::Spread(&[(1.0, 1.0), (0.5, 2.0), (0.1, 10.0), (0.02, 50.0)])),
    ("1 to 0.02, most clicks exact", Rates::Spread(&[(1.0, 20.0), (0.5, 2.0), (0.1, 5.0), (0.02, 20.0)])),
    ("a peak, another at any time", Rates::Peak),
];

impl Rates {
    /// Rates, and how many of `size` clicks come at each.
    fn clicks(&self, size: f64, random: &mut Random) -> Vec<(f64, f64)> {
        let spread: Vec<(f64, f64)> = match self {
            Self::Spread(spread) => spread.to_vec(),
            Self::Peak => {
                let height = random.size(1.0, 50.0);
                let load = |time: f64| 0.5 + height * (-time * time).exp();
                (-10..10).map(|step| load(f64::from(step) / 4.0)).map(|load| ((1.0 / load).min(1.0), load)).collect()
            }
        };
        let whole: f64 = spread.iter().map(|(_, part)| part).sum();
        spread.into_iter().map(|(rate, part)| (rate, size * part / whole)).collect()
    }
}

/// Of how many intervals, how many hold the truth.
#[derive(Default)]
struct Tally {
    intervals: u32,
    hold: u32,
}

impl Tally {
    fn note(&mut self, truth: u64, estimate: Estimate, heaviest: f64) {
        let (low, high) = estimate.interval(heaviest);
        assert!(low <= estimate.clicks() && estimate.clicks() <= high);
        self.intervals += 1;
        self.hold += u32::from((low..=high).contains(&truth));
    }

    fn percent(&self) -> f64 {
        100.0 * f64::from(self.hold) / f64::from(self.intervals)
    }
}

/// What share of all each group or bucket has.
const SHARES: [f64; 8] = [0.001, 0.003, 0.01, 0.03, 0.08, 0.15, 0.25, 0.5];

/// One report: its total, and its parts, among which the clicks of each rate are spread by chance.
fn simulate(rates: &Rates, random: &mut Random, tallies: &mut [Tally; 3]) {
    let size = random.size(300.0, 3_000_000.0);
    let mut heaviest = 1.0f64;
    let mut parts = [(0u64, Estimate::default()); SHARES.len()];
    for (rate, clicks) in rates.clicks(size, random) {
        heaviest = heaviest.max(1.0 / rate);
        for (share, (truth, estimate)) in SHARES.iter().zip(&mut parts) {
            let of_part = (clicks * share * (0.8 + 0.4 * random.share()) + random.share()) as u64;
            *truth += of_part;
            *estimate = estimate.plus(kept(random.chosen(of_part, rate), 1.0 / rate));
        }
    }
    let [totals, large, small] = tallies;
    let mut all = (0, Estimate::default());
    for (truth, estimate) in parts {
        all = (all.0 + truth, all.1.plus(estimate));
        if estimate.rows >= 30 {
            large.note(truth, estimate, heaviest);
        } else {
            small.note(truth, estimate, heaviest);
        }
    }
    totals.note(all.0, all.1, heaviest);
}

/// The table that is printed with `--nocapture` is that of the documentation.
#[test]
fn of_10_000_reports_95_percent_of_the_intervals_hold_the_truth() {
    println!("{:32}{:>10}{:>24}{:>24}", "", "totals", "30 rows or more", "fewer");
    for ((world, rates), seed) in WORLDS.iter().zip(1..) {
        let mut random = Random(seed);
        let mut tallies = [(); 3].map(|()| Tally::default());
        (0..10_000).for_each(|_| simulate(rates, &mut random, &mut tallies));
        let [totals, large, small] = &tallies;
        println!(
            "{:32}{:>8.2} %{:>11.2} % of {:>5}{:>14.2} % of {:>5}",
            world,
            totals.percent(),
            large.percent(),
            large.intervals,
            small.percent(),
            small.intervals,
        );
        for (what, tally, most) in [("totals", totals, 96.0), ("large", large, 96.0), ("small", small, 100.0)] {
            assert!(tally.intervals > 5_000);
            assert!((94.0..=most).contains(&tally.percent()), "{world}, {what}: {:.2} %", tally.percent());
        }
    }
}
