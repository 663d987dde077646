//! The listeners of a process that are bound before anything else begins: who finds an address taken has done nothing yet.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};

use super::Roles;
use crate::config::Config;

/// Those of the roles that a process has; redirects have one of their own.
#[derive(Debug)]
pub(super) struct Sockets {
    /// Of the management API.
    pub(super) manage: Option<TcpListener>,
    /// Of reports, SQL and the dashboard.
    pub(super) query: Option<TcpListener>,
}

impl Sockets {
    /// Binds them, and the ops listener, which every process has.
    ///
    /// # Errors
    /// Names the key whose address can't be listened on.
    pub(super) async fn bind(config: &Config, roles: Roles) -> anyhow::Result<(Self, TcpListener)> {
        let some = |wanted: bool, key: &'static str, address: SocketAddr| async move {
            if wanted { bind(key, address).await.map(Some) } else { Ok(None) }
        };
        if roles.redirect {
            // it listens once its journals are there; whether it can is known before they are made
            let (key, address) = ("redirect.listen", config.redirect.listen);
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            socket.set_reuseaddr(true)?;
            socket.bind(address).with_context(|| taken(key, address))?;
        }
        let sockets = Self {
            manage: some(roles.manage, "manage.listen", config.manage.listen).await?,
            query: some(roles.query, "query.listen", config.query.listen).await?,
        };
        Ok((sockets, bind("ops.listen", config.ops.listen).await?))
    }
}

async fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| taken(key, address))
}

/// What is said of an address that can't be listened on.
fn taken(key: &str, address: SocketAddr) -> String {
    let roles = if key == "ops.listen" { "; roles that share a machine need an ops.listen each" } else { "" };
    format!("{key} = \"{address}\" can't be listened on; is another process there?{roles}")
}
