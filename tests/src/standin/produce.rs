//! Produce: from a request to its answer, with all that may go wrong on purpose.

use std::time::Duration;

use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::{Batch, RawRecords};
use fluvio_protocol::types::SpuId;
use fluvio_sc_schema::topic::CompressionAlgorithm;
use fluvio_spu_schema::produce::{
    DefaultPartitionRequest, DefaultProduceRequest, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};

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
    // the client flushes with requests that hold nothing, too
    let is_empty = answer.responses.iter().all(|topic| topic.partitions.is_empty());
    if !is_empty && broker.take(|knobs| &mut knobs.lost_acks) {
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
    let batches = request.records.batches;
    let count = batches.len();
    let appended = match broker.store.partition(topic, partition_index) {
        Some(partition) if partition.is_led_by(spu) => append_all(broker, &partition, compression, batches),
        _ => Err(ErrorCode::NotLeaderForPartition),
    };
    match appended {
        Ok(base_offset) => PartitionProduceResponse { partition_index, base_offset, ..Default::default() },
        Err(error_code) => {
            broker.counters.refused.add(count);
            PartitionProduceResponse { partition_index, error_code, ..Default::default() }
        }
    }
}

/// Gives the offset of the first record.
fn append_all(
    broker: &Broker,
    partition: &Partition,
    compression: &CompressionAlgorithm,
    batches: Vec<Batch<RawRecords>>,
) -> Result<i64, ErrorCode> {
    let refusal = broker.knobs.borrow().refuse;
    if let Some(refusal) = refusal {
        return Err(refusal.code(&partition.key));
    }
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
