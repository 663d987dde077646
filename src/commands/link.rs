//! `highwater link …`.

use std::process::ExitCode;

use redirect::links::{Change, LinkStore, ListLinks, NewLink, Which};
use schemas::{Link, UtcMicros};

use super::{WrongUsage, open, print};
use crate::cli::{Link as Command, Named};
use crate::config::Config;

/// Links are listed in pages of so many.
const PAGE: u32 = 500;

/// Makes, lists, shows or changes links.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let store = open::link_store(config).await?;
    let now = UtcMicros::now();
    match command {
        Command::Add { url, code, domain, workspace, analytics, json } => {
            let new = NewLink { workspace, code, domain, analytics, ..NewLink::to(url) };
            let link = store.create(new, now).await.map_err(WrongUsage::of)?;
            show(&link, json)?;
        }
        Command::List { workspace, json } => list(&store, workspace, json).await?,
        Command::Show(named) => show(&store.get(&which(&named)).await?, named.json)?,
        Command::Disable { link, reason } => change(&store, &link, Change::Disable { reason }, now).await?,
        Command::Enable(named) => change(&store, &named, Change::Enable, now).await?,
        Command::Delete(named) => change(&store, &named, Change::Delete, now).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn which(named: &Named) -> Which {
    Which { workspace: None, domain: named.domain.clone(), code: named.code.clone() }
}

async fn change(store: &LinkStore, named: &Named, change: Change, now: UtcMicros) -> anyhow::Result<()> {
    let link = store.change(&which(named), &change, now).await.map_err(WrongUsage::of)?;
    show(&link, named.json)
}

fn show(link: &Link, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print::json(link);
    }
    let reason = link.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    print::line(&format!("{}  ->  {}", link.short_url, link.destination))?;
    print::line(&format!(
        "  {}{reason}, {}, workspace {}, revision {}, made {}",
        link.status, link.analytics, link.workspace, link.revision, link.created_at
    ))
}

async fn list(store: &LinkStore, workspace: Option<String>, as_json: bool) -> anyhow::Result<()> {
    if let Some(workspace) = &workspace {
        store.require_workspace(workspace).await?;
    }
    let mut links = Vec::new();
    let mut page = ListLinks { workspace, status: None, after: None, limit: PAGE };
    loop {
        let got = store.list(&page).await?;
        links.extend(got.links);
        match got.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    if as_json {
        return print::json(&links);
    }
    let rows: Vec<Vec<String>> = links
        .iter()
        .map(|link| {
            let texts = [&link.short_url, &link.destination, &link.workspace].map(Clone::clone);
            let words = [link.analytics.to_string(), link.status.to_string()];
            texts.into_iter().chain(words).collect()
        })
        .collect();
    print::line(&print::columns(&["short url", "destination", "workspace", "analytics", "status"], &rows))
}
