//! Temporary.
use ingest::journal::*; use ingest::stream::*; use schemas::*; use std::time::*;
fn main(){
 let dir=std::env::args().nth(1).unwrap();
 let _=std::fs::remove_dir_all(&dir);
 let js=Journals::open(std::path::Path::new(&dir), JournalConfig::default()).unwrap();
 let j=js.open_journal(JournalId::new(), UtcMicros::now(), 0).unwrap();
 let rt=tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
 let cancel=tokio_util::sync::CancellationToken::new();
 let t=rt.spawn(js.sync_task(vec![j.clone()]).run(cancel.clone()));
 let n=2_000_000u64; let payload=[7u8;300];
 let s=Instant::now(); let mut worst=Duration::ZERO; let mut slow=0;
 for _ in 0..n { let a=Instant::now(); match j.append(Analytics::Billed, |_,o| o.extend_from_slice(&payload)) {Appended::Written{..}=>{},x=>panic!("{x:?}")}; let d=a.elapsed(); worst=worst.max(d); if d>Duration::from_millis(1){slow+=1;} }
 let d=s.elapsed(); println!("append {:.0}/s worst {:?} over1ms {slow}", n as f64/d.as_secs_f64(), worst);
 cancel.cancel(); rt.block_on(t).unwrap(); j.sync().unwrap();
 let st=j.stats(); println!("{} segments {} end {}", st.bytes, st.segments, st.end);
 for max in [64<<10, 1<<20, 4<<20usize] {
 let s=Instant::now(); let mut p=JournalPartition::new(&j); let mut at=0; let mut bytes=0usize;
 rt.block_on(async { while at < st.synced { let r=p.read(at,max).await.unwrap(); at+=r.len() as u64; for x in r { if let Body::Click(b)=x.body {bytes+=b.len();} } } });
 println!("read {max}: {:.0}/s", at as f64/s.elapsed().as_secs_f64());
 let s=Instant::now(); let mut p=JournalPartition::in_directory(std::path::Path::new(&dir), j.id()); let mut at=0;
 rt.block_on(async { let end=p.end().await.unwrap(); while at < end { let r=p.read(at,max).await.unwrap(); at+=r.len() as u64; } });
 println!("follow {max}: {:.0}/s", at as f64/s.elapsed().as_secs_f64());
 }
 let id=j.id(); drop(j); let s=Instant::now(); let j=js.open_journal(id, UtcMicros::now(), 0).unwrap(); println!("reopen {:?} {:?}", s.elapsed(), j.stats().end);
 let _=std::fs::remove_dir_all(&dir);
}
