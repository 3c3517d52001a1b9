// StateGatherer if every worker is a process: rank 0 receives what it lacks as messages.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/memory.h"
#include "comm/rendezvous/text_messages.h"
#include "runtime/migrate/collect.h"
#include "runtime/migrate/migrate.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

/// A tag that no bucket uses.
int64_t tag_of_parts(const Program& program) { return int64_t(program.buckets.size()); }

/// Returns the names, shapes and regions of the parts, without their values.
json described(const std::vector<HeldPart>& parts) {
  json list = json::array();
  for (const HeldPart& part : parts) {
    json box = json::array();
    for (const Range& range : part.box) box.push_back({range.begin, range.end});
    list.push_back({part.name, part.shape, box});
  }
  return list;
}

std::vector<HeldPart> parts_from(const json& list) {
  std::vector<HeldPart> parts;
  for (const json& entry : list) {
    HeldPart part{.name = entry.at(0).get<std::string>(), .shape = entry.at(1).get<Shape>(), .box = {}, .values = {}};
    for (const json& range : entry.at(2)) part.box.push_back({range.at(0).get<int64_t>(), range.at(1).get<int64_t>()});
    parts.push_back(std::move(part));
  }
  return parts;
}

void send_parts(const HeldParts& held, Communicator& world, int64_t tag) {
  std::string text;
  json::to_cbor(json{described(held.buffers), described(held.averaged_buffers), described(held.carried)}, text);
  send_text(world, text, 0, tag);
  for (const std::vector<HeldPart>* parts : {&held.buffers, &held.averaged_buffers, &held.carried})
    for (const HeldPart& part : *parts) world.send(part.values, 0, tag);
}

HeldParts receive_parts(Communicator& world, int from, int64_t tag) {
  const json lists = json::from_cbor(receive_text(world, from, tag));
  HeldParts held{parts_from(lists.at(0)), parts_from(lists.at(1)), parts_from(lists.at(2))};
  for (std::vector<HeldPart>* parts : {&held.buffers, &held.averaged_buffers, &held.carried})
    for (HeldPart& part : *parts) part.values = world.receive(from, tag);
  return held;
}

std::vector<at::Tensor> receive_all(size_t count, Communicator& world, int from, int64_t tag) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (size_t k = 0; k < count; ++k) tensors.push_back(world.receive(from, tag));
  return tensors;
}

void send_all(const std::vector<at::Tensor>& tensors, Communicator& world, int to, int64_t tag) {
  for (const at::Tensor& tensor : tensors) world.send(tensor, to, tag);
}

}  // namespace

/// The sum of errors travels from the last contributor to the first, and from there to rank 0. Q comes from the first
/// holder.
void StateGatherer::add_factors(BucketId id, Worker& worker, Communicator& world) {
  const Bucket& bucket = program_.buckets[size_t(id)];
  const size_t count = factored(bucket).size();
  if (count == 0) return;
  const int rank = world.rank(), giver = bucket.holders.front();
  const std::vector<int>& chain = bucket.contributors;
  const std::vector<FactorPiece> own = worker.replicas().factors(id);  // none where the worker is no holder
  std::vector<at::Tensor> sums, factors;
  factors.reserve(count);
  const auto me = std::lower_bound(chain.begin(), chain.end(), rank);
  if (me != chain.end() && *me == rank) {
    if (std::next(me) != chain.end()) sums = receive_all(count, world, *std::next(me), id);
    add_errors(own, sums);
    if (rank != 0) send_all(sums, world, me == chain.begin() ? 0 : *std::prev(me), id);
  } else if (rank == 0) {
    sums = receive_all(count, world, chain.front(), id);
  }
  if (rank == giver || rank == 0)
    for (const FactorPiece& piece : own) factors.push_back(piece.factor.to(at::kCPU));
  if (rank == giver && rank != 0) send_all(factors, world, 0, id);
  if (rank != 0) return;
  if (giver != 0) factors = receive_all(count, world, giver, id);
  put_factors(bucket, sums, factors);
}

void StateGatherer::gather(Worker& worker, Communicator& world, Precision precision, int states) {
  const DeviceScope uncharged(kNoDevice);
  worker.settle();
  worker.barrier();
  state_.updates = worker.updates();
  const auto tensors_of = [states](const ReplicaPiece& piece) {
    std::vector<at::Tensor> tensors{piece.master};
    tensors.insert(tensors.end(), piece.state.begin(), piece.state.end());
    tensors.resize(size_t(states) + 1);
    return tensors;
  };
  for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) {
    const Bucket& bucket = program_.buckets[size_t(b)];
    const auto flats = collect_bucket(program_, b, worker.replicas(), world, has_state(bucket) ? states + 1 : 1,
                                      master_type(precision), tensors_of);
    if (!flats.empty()) add_shards(bucket, flats);
    add_factors(b, worker, world);
  }
  HeldParts held = worker.held();
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.rank() != 0) {
      send_parts(held, world, tag_of_parts(program_));
      break;
    }
    if (rank > 0) held = receive_parts(world, rank, tag_of_parts(program_));
    add(held);
  }
  worker.barrier();  // no rank writes to values that others may still be reading
}

}  // namespace trireme
