use proptest::prelude::*;

use super::*;

fn framed(text: &[u8], pieces: &[usize]) -> Vec<u8> {
    let (mut framer, mut out, mut rest) = (Framer::new(), Vec::new(), text);
    for piece in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at((*piece).min(rest.len()));
        framer.push(now, &mut out);
        rest = later;
    }
    framer.finish(&mut out);
    out
}

fn lines(text: &str) -> Vec<String> {
    let out = String::from_utf8(framed(text.as_bytes(), &[usize::MAX])).unwrap();
    assert_eq!(framed(text.as_bytes(), &[1]), out.as_bytes(), "however it comes in: {text}");
    out.lines().map(str::to_owned).collect()
}

const A: &str = r#"{"a":{"b":"}{\\\"[,"},"c":[1,{}]}"#;
const B: &str = r#"{"d":null}"#;

#[test]
fn objects_become_lines_however_they_are_put_together() {
    for text in [
        format!("{A}{B}"),
        format!("{A} {B}\n"),
        format!("{A},{B},"),
        format!("{A}\n{B}\n"),
        format!("\r\n{A}\r\n\r\n{B}"),
        format!("[{A},{B}]"),
        format!("[\n  {A},\n  {B}\n]\n"),
        format!("[{A}][{B}]"),
        format!("{{\"records\":[{A},{B}]}}"),
        format!("{{ \"records\" : [ {A},{B}], \"count\": [{{\"x\":\"]}}\"}}] }}\n"),
        format!("{{\"events\":[{A}]}}{{\"events\":[{B}]}}"),
        format!("{{\"events\":[{A}]}}\n{B}\n"),
        format!("{{\"outer\":[{{\"inner\":[{A}],\"x\":1}},{B}]}}"),
    ] {
        assert_eq!(lines(&text), [A, B], "{text}");
    }
    assert_eq!(lines("{\n \"a\": \"b\",\r\n \"c\": [\n1]}\n"), ["{  \"a\": \"b\",   \"c\": [ 1]}"]);
    assert_eq!(lines("[]"), [""; 0]);
}

#[test]
fn a_list_inside_a_record_is_part_of_it() {
    for text in [r#"{"a":1,"list":[{"b":1}]}"#, r#"{"list":[1,{"b":1}]}"#, r#"{"list":[]}"#, r#"{"a":{"list":[{}]}}"#] {
        assert_eq!(lines(&format!("{text}{B}")), [text, B]);
    }
    let name = "x".repeat(LONGEST_WRAPPING);
    let text = format!("{{\"{name}\":[{{\"b\":1}}]}}");
    assert_eq!(lines(&format!("{text}{B}")), [&text, B]);
}

#[test]
fn what_is_no_json_is_a_line_of_its_own_and_ends_where_the_next_begins() {
    for (text, expected) in [
        (format!("{{\"a\":\"cut\n{B}"), &["{\"a\":\"cut", B][..]),
        (format!("{{\"a\":{{\"b\":1\n{B}{B}"), &["{\"a\":{\"b\":1 ", B, B]),
        (format!("{{\"a\":\"\\x22\"}}{B}"), &["{\"a\":\"\\x22\"}", B]),
        (format!("{{\"a\":1 2}},{B}"), &["{\"a\":1 2},", B]),
        (format!("garbage\n{B}"), &["garbage", B]),
        (format!("{B}garbage{B}\n{B}"), &[B, "garbage{\"d\":null}", B]),
        (format!("[1,2,{B}]"), &["1,2,{\"d\":null}]"]),
        (format!("{{\"records\":[{B},{{\"a\""), &[B, "{\"a\""]),
        (format!("{{\"records\":[{B},oops,{B}]}}\n{B}"), &[B, "oops,{\"d\":null}]}", B]),
        (r#"{"a":1"#.to_owned(), &[r#"{"a":1"#]),
        (format!("{B}}}\n{B}"), &[B, "}", B]),
    ] {
        assert_eq!(lines(&text), expected, "{text}");
    }
}

#[test]
fn the_first_bytes_decide() {
    use Framing::{Lines, Objects};
    for (head, framing) in [
        ("", Lines),
        ("  \n", Lines),
        ("203.0.113.10 - - [14/Mar", Lines),
        ("[14/Mar/2026] x\n", Lines),
        ("[]", Objects),
        ("[\n{", Objects),
        ("[[", Lines),
        ("{\"a\":1}\n{\"a\":2}\n", Lines),
        ("{\"a\":1}\r\n{\"a\":2}\r\n", Lines),
        ("{\"a\":1}", Lines),
        ("{\"a\":1} \n", Lines),
        ("{\"a\":1}{", Objects),
        ("{\"a\":1} {", Objects),
        ("{\"a\":1},\n", Objects),
        ("{\"a\":\n1}\n", Objects),
        ("{\"a\":\"cut\n{\"a\":1}{", Lines),
        ("{\"a\":{\"b\":1\n{\"a\":1}{", Lines),
        ("{\"records\":[{", Objects),
        ("{\n  \"records\": [\n    {", Objects),
        ("{\"a\":1,\"records\":[{", Lines),
        ("{\"records\":[]}\n", Lines),
        ("{x", Lines),
    ] {
        assert_eq!(decide(head.as_bytes(), true), Some(framing), "{head:?}");
    }
    let long = format!("{{\"a\":\"{}\"}}{{", "x".repeat(LOOKED_AT));
    assert_eq!(decide(long.as_bytes(), false), Some(Framing::Lines), "longer than any line may be");
    let wrapping = format!("{{\"{}\":[{{", "x".repeat(LONGEST_WRAPPING));
    assert_eq!(decide(wrapping.as_bytes(), false), Some(Framing::Lines), "as the framer takes it");
}

#[test]
fn more_bytes_never_change_the_answer() {
    for text in [
        "[\n {\"a\":1}]",
        "{\"a\":1}  {\"b\":2}",
        "{\"a\":\n{}}\n",
        "{ \"r\" :[ {}]}",
        "{\"a\" 1}",
        "x{",
        "{\"a\":1} \nx",
    ] {
        let mut answer = None;
        for end in 0..=text.len() {
            let now = decide(&text.as_bytes()[..end], false);
            assert!(answer.is_none() || answer == now, "{text:?} at {end}: {answer:?}, then {now:?}");
            answer = now;
        }
        assert!(answer.is_some(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn it_does_not_matter_how_bytes_come_in(
        parts in prop::collection::vec(
            prop::sample::select(vec![A, B, "{", "}", "[", "]", ",", "\"", "\\", "\n", " ", ":", "1", "{\"r\":[", "é"]),
            0..30,
        ),
        pieces in prop::collection::vec(1_usize..9, 1..5),
    ) {
        let text = parts.concat();
        let whole = framed(text.as_bytes(), &[usize::MAX]);
        prop_assert_eq!(framed(text.as_bytes(), &pieces), whole.clone());
        prop_assert!(whole.len() <= text.len() * 2);
        let answer = decide(text.as_bytes(), false);
        for end in 0..text.len() {
            let early = decide(&text.as_bytes()[..end], false);
            prop_assert!(early.is_none() || early == answer);
        }
    }

    #[test]
    fn no_object_is_lost(count in 1_usize..20, form in 0_usize..4, pieces in prop::collection::vec(1_usize..60, 1..4)) {
        let objects: Vec<String> = (0..count).map(|number| format!("{{\"n\":{number},\"x\":\"}}{{\"}}")).collect();
        let text = match form {
            0 => objects.concat(),
            1 => format!("[{}]", objects.join(",")),
            2 => format!("{{\"records\":[{}],\"more\":1}}", objects.join(",\n")),
            _ => objects.join("\n"),
        };
        let framed = framed(text.as_bytes(), &pieces);
        let lines: Vec<&str> = std::str::from_utf8(&framed).unwrap().lines().collect();
        prop_assert_eq!(lines, objects);
    }
}
