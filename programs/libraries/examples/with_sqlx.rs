//! sqlx, in its flavour for Tokio, on Chanter: threads share a pool of connections to a database in memory.

use chanter::bridge::tokio::{entered, on_tokio, shared_handle};
use chanter::prelude::*;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use std::error::Error;
use std::time::Duration;

async fn open() -> sqlx::Result<SqlitePool> {
    // One connection: each one would have a memory of its own.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE threads (name TEXT NOT NULL, kind TEXT NOT NULL)").execute(&pool).await?;
    Ok(pool)
}

async fn insert(pool: SqlitePool, name: String, kind: &'static str) -> sqlx::Result<u64> {
    let insert = sqlx::query("INSERT INTO threads VALUES (?, ?)").bind(name).bind(kind);
    Ok(insert.execute(&pool).await?.rows_affected())
}

async fn number_of(pool: SqlitePool, kind: &'static str) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT COUNT(*) FROM threads WHERE kind = ?").bind(kind).fetch_one(&pool).await
}

/// A transaction that is dropped is rolled back.
async fn roll_back(pool: SqlitePool) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    sqlx::query("DELETE FROM threads").execute(&mut *transaction).await?;
    drop(transaction);
    assert_eq!(number_of(pool.clone(), "host").await?, 4);
    pool.close().await;
    Ok(())
}

#[chanter::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let tokio = shared_handle();
    let pool = entered(tokio, open()).await?;

    // Hosts and parasites wait for the one connection.
    let (done, ends) = mailbox();
    for n in 0..4 {
        let (pool, done) = (pool.clone(), done.clone());
        spawn_parasite(entered(tokio, async move {
            let _ = done.send(insert(pool, format!("parasite {n}"), "parasite").await).await;
        }));
    }
    let hosts: Vec<_> =
        (0..4).map(|n| spawn(entered(tokio, insert(pool.clone(), format!("host {n}"), "host")))).collect();
    for host in hosts {
        assert_eq!(host.await??, 1);
    }
    for _ in 0..4 {
        assert_eq!(ends.recv().await??, 1);
    }

    // A query as an event, with a timeout.
    let parasites = on_tokio(number_of(pool.clone(), "parasite")).timeout(Duration::from_secs(30));
    assert_eq!(parasites.await.ok_or("the database is slow")???, 4);

    entered(tokio, roll_back(pool)).await?;
    println!("sqlx: the rows are right");
    Ok(())
}
