//! The request-level cases of `cases/requests.toml`, each by the path that its request came in on.

use ingest::edge::{EdgeClass, EdgeRequest};
use ipnet::IpNet;
use schemas::{Class, ClickEvent, ClickId, Method, Source, UtcMicros};
use serde::Deserialize;

use super::testing::event;
use super::{EdgeLine, EnrichConfig, Enricher, Rules};
use crate::classify::Classifier;
use crate::networks::{List, Meaning, Networks};

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Path {
    /// The redirect's own event.
    #[default]
    Stream,
    /// A line of an edge's log.
    Log,
    /// An event made elsewhere.
    Import,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    path: Path,
    method: Option<Method>,
    #[serde(default)]
    ua: String,
    #[serde(default)]
    purpose: String,
    address: Option<std::net::IpAddr>,
    class: Class,
    agent: Option<String>,
    reason: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    name: String,
    #[serde(rename = "as")]
    meaning: Meaning,
    #[serde(default)]
    agents: Vec<String>,
    prefixes: Vec<IpNet>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    network: Vec<Network>,
    case: Vec<Case>,
}

impl Case {
    /// Class, agent's name and reason of the row that it becomes.
    fn judged(&self, enricher: &Enricher) -> (Class, Option<String>, String) {
        let verdict = match self.path {
            Path::Stream => enricher.event_row(&self.event(), UtcMicros(0), |row| row.verdict.clone()),
            Path::Log => self.row(enricher, EdgeClass::Edge, Source::Edge),
            Path::Import => self.row(enricher, EdgeClass::Origin, Source::Import),
        };
        (verdict.class, verdict.agent.as_deref().map(str::to_owned), verdict.reason.as_ref().to_owned())
    }

    fn event(&self) -> ClickEvent<'_> {
        ClickEvent {
            method: self.method.unwrap_or(Method::Get),
            address: self.address,
            user_agent: &self.ua,
            purpose: &self.purpose,
            ..event(7, UtcMicros(0))
        }
    }

    fn row(&self, enricher: &Enricher, class: EdgeClass, source: Source) -> schemas::click::Verdict {
        assert_eq!(self.purpose, "", "{}: neither logs nor exports carry headers", self.why);
        let request = EdgeRequest {
            time: UtcMicros(0),
            class,
            host: "s.example.com",
            path: "/abc",
            code: "abc",
            query: "",
            method: self.method,
            status: 302,
            address: self.address,
            user_agent: &self.ua,
            referrer: "",
            country: "",
            region: "",
            city: "",
            asked: Default::default(),
            language: "",
            line_key: None,
        };
        let line = EdgeLine {
            click_id: ClickId([7; 16]),
            source,
            import_id: Some("i"),
            ingest_time: UtcMicros(0),
            visitor_key: None,
            domain: "s.example.com",
            is_internal: false,
        };
        enricher.edge_row(&request, line, None, |row| row.verdict.clone())
    }
}

fn cases() -> Cases {
    toml::from_str(include_str!("../../cases/requests.toml")).unwrap()
}

fn enricher(networks: &[Network]) -> Enricher {
    let list = |network: &Network| List {
        name: network.name.clone(),
        meaning: network.meaning,
        agents: network.agents.clone(),
        source: "the cases".into(),
        updated_at: UtcMicros(0),
        prefixes: network.prefixes.clone(),
    };
    let lists: Vec<List> = networks.iter().map(list).collect();
    lists.iter().for_each(|list| list.check().unwrap());
    let rules = Rules { classifier: Classifier::builtin().unwrap(), networks: Networks::new(&lists) };
    Enricher::with_rules(rules, &EnrichConfig::default())
}

#[test]
fn requests_are_judged_as_the_cases_say() {
    let Cases { network, case: cases } = cases();
    let enricher = enricher(&network);
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let judged = case.judged(&enricher);
        if judged != (case.class, case.agent.clone(), case.reason.clone()) {
            wrong.push(format!("{}: {judged:?} for {:?} {} {:?}", case.why, case.path, case.ua, case.address));
        }
        assert!(case.class != Class::Human || case.agent.is_none(), "{}: people have no name", case.why);
        assert!(case.path != Path::Stream || case.method.is_some(), "{}: an event has a method", case.why);
        assert!(!case.why.trim().is_empty());
    }
    assert!(wrong.is_empty(), "{} are judged otherwise:\n{}", wrong.len(), wrong.join("\n"));
    for path in [Path::Stream, Path::Log, Path::Import] {
        assert!(cases.iter().filter(|case| case.path == path).count() >= 8, "{path:?}");
    }
}

#[test]
fn a_head_is_never_human() {
    let Cases { network, case: cases } = cases();
    let enricher = enricher(&network);
    for mut case in cases {
        case.method = Some(Method::Head);
        assert_ne!(case.judged(&enricher).0, Class::Human, "{}", case.ua);
    }
}

/// An event and a line of one request say the same, as far as the line can: all but headers.
#[test]
fn a_line_is_judged_as_its_event() {
    let Cases { network, case: cases } = cases();
    let enricher = enricher(&network);
    for case in cases.into_iter().filter(|case| case.purpose.is_empty() && case.method.is_some()) {
        let as_event = Case { path: Path::Stream, ..case };
        let before = as_event.judged(&enricher);
        assert_eq!(Case { path: Path::Log, ..as_event }.judged(&enricher), before);
    }
}

/// Whose previews are known by a token that is published, or was seen in logs or public lists; by the names they get here.
const PLATFORMS: [&str; 89] = [
    "WhatsApp",
    "Signal",
    "iMessage",
    "Meta",
    "Meta AI",
    "Facebook app",
    "X",
    "Telegram",
    "Slack",
    "Discord",
    "LinkedIn",
    "LINE",
    "LINE search",
    "KakaoTalk",
    "Naver",
    "Remind",
    "The Lounge",
    "Microsoft Teams",
    "Microsoft",
    "Google Messages",
    "Google preview",
    "Yahoo",
    "Apple",
    "Outlook",
    "Microsoft Office",
    "Viber",
    "Snapchat",
    "Reddit",
    "Pinterest",
    "Bluesky",
    "Mastodon",
    "Pleroma",
    "Misskey",
    "GoToSocial",
    "Friendica",
    "Lemmy",
    "Matrix",
    "Mattermost",
    "Zulip",
    "Discourse",
    "Keybase",
    "GroupMe",
    "Steam",
    "TeamSpeak",
    "Chatterino",
    "VK",
    "Odnoklassniki",
    "Mail.RU",
    "DingTalk",
    "Toutiao",
    "Baidu",
    "ByteDance",
    "TikTok",
    "Tumblr",
    "WordPress",
    "Notion",
    "Atlassian",
    "Iframely",
    "Embedly",
    "Asana",
    "ClickUp",
    "Coda",
    "Evernote",
    "Bitrix24",
    "Doist",
    "Mixmax",
    "Fastmail",
    "Shortwave",
    "Dash",
    "Chatwork",
    "Hatena",
    "mixi",
    "Gadu-Gadu",
    "XING",
    "Quora",
    "Medium",
    "Substack",
    "Flipboard",
    "Pocket",
    "Instapaper",
    "Buffer",
    "Orlo",
    "Loomly",
    "Bitly",
    "OpenGraph",
    "GitHub",
    "Arena",
    "Miro",
    "Rocket.Chat",
];

#[test]
fn every_preview_platform_has_a_rule_a_name_and_a_case() {
    let (classifier, cases) = (Classifier::builtin().unwrap(), cases().case);
    for platform in PLATFORMS {
        assert!(classifier.agents().any(|agent| agent == platform), "{platform} has no rule");
        let case = cases.iter().find(|case| case.agent.as_deref() == Some(platform));
        assert!(case.is_some_and(|case| case.class != Class::Human), "{platform} has no case");
    }
}
