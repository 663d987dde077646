use super::*;

const BARE: &str = r#"$msec "$request" $status"#;

fn literal(text: &str) -> Piece {
    Piece::Literal(text.as_bytes().to_vec())
}

#[test]
fn a_directive_may_be_given_whole_or_in_part() {
    let expected = Directive::parse(BARE).unwrap();
    assert_eq!(
        expected.pieces,
        [
            Piece::Value(Some(Slot::Msec)),
            literal(" \""),
            Piece::Value(Some(Slot::Request)),
            literal("\" "),
            Piece::Value(Some(Slot::Status)),
        ]
    );
    for text in [
        r#"  ${msec} "$request" $status  "#,
        r#"'$msec "$request" $status'"#,
        "'$msec '\n    '\"$request\" $status';",
        r#"escape=json '$msec "$request" ' '$status'"#,
        r#"escape=default $msec "$request" $status"#,
        "log_format main '$msec \"$request\" '\n                '$status';\n",
        r#"log_format main escape=json "$msec \"$request\" $status";"#,
    ] {
        assert_eq!(Directive::parse(text), Ok(expected.clone()), "{text}");
    }
    let raw = Directive::parse(&format!("escape=none {BARE}")).unwrap();
    assert!(expected.escaped && !raw.escaped && raw.pieces == expected.pieces);
}

#[test]
fn values_side_by_side_are_taken_apart_where_they_can_be() {
    let pieces = |text: &str| Directive::parse(&format!("$msec $status {text}")).map(|read| read.pieces[4..].to_vec());
    let (host, target) = (Some(Slot::Host), Some(Slot::Target));
    assert_eq!(pieces("$host$request_uri"), Ok(vec![Piece::UntilSlash(host), Piece::Value(target)]));
    assert_eq!(
        pieces("$scheme://$host$uri$is_args$args x"),
        Ok(vec![Piece::Value(None), literal("://"), Piece::UntilSlash(host), Piece::Value(target), literal(" x")])
    );
    assert_eq!(
        pieces("$uri$args"),
        Err(DirectiveError::SideBySide { first: "uri".to_owned(), second: "args".to_owned() })
    );
    assert!(pieces("$request_uri$host").is_err() && pieces("$uri$is_args$host").is_err());
}

#[test]
fn what_is_wrong_is_said() {
    for (text, message) in [
        (
            "$remote_addr",
            "it lacks a time ($msec, $time_iso8601 or $time_local), and what was asked for ($request, or $request_uri with $request_method), and $status",
        ),
        ("$time_local $request_uri", "it lacks $status"),
        (r#"$msec "$request" $status $"#, "no variable's name follows the dollar sign in \"$\""),
        ("${msec $status", "no variable's name follows the dollar sign in \"${msec $status\""),
        ("escape=html $msec", "escape=html is none of default, json, none"),
        ("'$msec", "its quotes don't pair near \"'$msec\""),
        ("'$msec' $status", "its quotes don't pair near \"$status\""),
    ] {
        assert_eq!(Directive::parse(text).unwrap_err().to_string(), message, "{text}");
    }
}
