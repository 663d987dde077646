//! Produce: from a request to its answer, with all that may go wrong on purpose.

use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::{Batch, RawRecords};
use fluvio_protocol::types::SpuId;
use fluvio_sc_schema::topic::CompressionAlgorithm;
use fluvio_spu_schema::produce::{
    DefaultPartitionRequest, DefaultProduceRequest, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use std::time::Duration;

use super::broker::Broker;
use super::partition::Partition;

/// Appends what is asked for, and gives the answer; none when it gets lost and the connection with it.
pub(super) async fn produce(broker: &Broker, spu: SpuId, request: DefaultProduceRequest) -> Option<ProduceResponse> {
    broker.counters.produce_requests.add(1);
    let mut answer = ProduceResponse::default();
    for topic in request.topics {
        let spec = broker.store.topic(&topic.name).map(|topic| topic.spec);
        let compression = spec.as_ref().map_or(&CompressionAlgorithm::Any, |spec| spec.get_compression_type());
        let partitions = topic.partitions.into_iter();
        let partitions = partitions.map(|part| append(broker, spu, &topic.name, compression, part)).collect();
        answer.responses.push(TopicProduceResponse { name: topic.name, partitions });
    }
    if broker.take(|knobs| &mut knobs.lost_acks) {
        return None;
    }
    let delay = broker.knobs.borrow().ack_delay_ms;
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    Some(answer)
}

fn append(
    broker: &Broker,
    spu: SpuId,
    topic: &str,
    compression: &CompressionAlgorithm,
    request: DefaultPartitionRequest,
) -> PartitionProduceResponse {
    let partition_index = request.partition_index;
    let mut answer = PartitionProduceResponse { partition_index, ..Default::default() };
    let batches = request.records.batches;
    let refused = match broker.store.partition(topic, partition_index) {
        Some(partition) if partition.is_led_by(spu) => {
            let refusal = broker.knobs.borrow().refuse.map(|refusal| refusal.code(&partition.key));
            let count = batches.len();
            let base_offset = match refusal {
                Some(code) => Err(code),
                None => append_all(broker, &partition, compression, batches),
            };
            base_offset.map(|base_offset| answer.base_offset = base_offset).map_err(|code| (code, count))
        }
        _ => Err((ErrorCode::NotLeaderForPartition, batches.len())),
    };
    if let Err((code, batches)) = refused {
        broker.counters.refused.add(batches);
        answer.error_code = code;
    }
    answer
}

/// Gives the offset of the first record.
fn append_all(
    broker: &Broker,
    partition: &Partition,
    compression: &CompressionAlgorithm,
    batches: Vec<Batch<RawRecords>>,
) -> Result<i64, ErrorCode> {
    if !batches.iter().all(|batch| is_allowed(compression, batch)) {
        return Err(ErrorCode::CompressionError);
    }
    let mut first = None;
    for mut batch in batches {
        let mut base = append_one(broker, partition, &mut batch)?;
        if broker.take(|knobs| &mut knobs.duplicates) {
            base = append_one(broker, partition, &mut batch)?;
        }
        first.get_or_insert(base);
    }
    Ok(first.unwrap_or_default())
}

fn append_one(broker: &Broker, partition: &Partition, batch: &mut Batch<RawRecords>) -> Result<i64, ErrorCode> {
    let base = partition.append(batch)?;
    broker.counters.batches.add(1);
    broker.counters.records.add(batch.records_len());
    broker.counters.bytes.add(batch.records().0.len());
    Ok(base)
}

fn is_allowed(topic: &CompressionAlgorithm, batch: &Batch<RawRecords>) -> bool {
    // its lowest bits, as `fluvio-compression` numbers them
    let codec = batch.get_header().attributes & 0x07;
    match topic {
        CompressionAlgorithm::Any => (0..=4).contains(&codec),
        CompressionAlgorithm::None => codec == 0,
        CompressionAlgorithm::Gzip => codec == 1,
        CompressionAlgorithm::Snappy => codec == 2,
        CompressionAlgorithm::Lz4 => codec == 3,
        CompressionAlgorithm::Zstd => codec == 4,
    }
}
