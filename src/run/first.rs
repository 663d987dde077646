//! What whoever starts a process finds: where everything is, and of `up` a token, and sample links on demand.

use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::Context;
use redirect::links::{LinkError, LinkStore, NewLink};
use schemas::UtcMicros;

use super::Roles;
use super::tasks::Tasks;
use crate::config::Config;

/// The operator token of the folder, made and written at its first start.
///
/// # Errors
/// When the link store or the folder can't be written.
pub(super) async fn token(config: &Config, store: &LinkStore) -> anyhow::Result<Option<String>> {
    use std::io::Write as _;
    let path = config.admin_token_file();
    if let Ok(text) = std::fs::read_to_string(&path)
        && !text.trim().is_empty()
    {
        return Ok(Some(text.trim().to_owned()));
    }
    let token = store.add_operator_token(UtcMicros::now()).await?;
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("can't write {}", path.display()))?;
    writeln!(file, "{}", token.reveal())?;
    file.sync_all()?;
    Ok(Some(token.reveal().to_owned()))
}

/// Sample links, and visitors who come through the listener.
///
/// # Errors
/// When the link store can't be written.
pub(super) async fn demo(
    config: &Config,
    store: &LinkStore,
    address: SocketAddr,
    front: &mut Tasks,
) -> anyhow::Result<()> {
    for sample in crate::demo::LINKS {
        let new = NewLink {
            code: Some(sample.code.to_owned()),
            title: Some(sample.title.to_owned()),
            ..NewLink::to(sample.destination)
        };
        match store.create(new, UtcMicros::now()).await {
            Ok(_) | Err(LinkError::Taken { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let domain = config.redirect.domains.first().cloned().unwrap_or_default();
    front.spawn("demo", crate::demo::play(address, domain, front.stop_token()));
    Ok(())
}

/// Says where things are.
pub(super) fn greet(config: &Config, roles: Roles, login: Option<&str>) {
    tracing::info!(data_dir = %config.data_dir.display(), lake = config.lake_root(), "ready");
    let domain = config.redirect.domains.first().map_or("", String::as_str);
    if roles.redirect {
        println!("redirects   http://{domain}/CODE  (listening on {})", config.redirect.listen);
    }
    if roles.manage {
        println!("management  http://{}/v1/links", config.manage.listen);
    }
    if roles.query {
        println!("reports     http://{}/v1/reports/clicks", config.query.listen);
    }
    println!("health      http://{}/healthz", config.ops.listen);
    if roles == Roles::ALL {
        println!("token       {}", config.admin_token_file().display());
    }
    if let Some(login) = login.filter(|_| Config::is_loopback(config.query.listen)) {
        println!("\nopen {login}  (logs this browser in, once)");
    }
}
