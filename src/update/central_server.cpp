#include "update/central_server.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/memory.h"
#include "base/text_parts.h"
#include "base/whole.h"
#include "comm/formulas.h"
#include "trireme/error.h"
#include "update/statistics.h"

namespace trireme {
namespace {

// Numbers at the front of every request: number of parts, version read. The policy's numbers follow.
constexpr size_t kHeader = 2;
// Numbers at the front of every reply: number of parts, version after the request, version before it, whether the
// request's values are used. The policy's numbers follow.
constexpr size_t kReplyHeader = 4;

constexpr const char* kWeights = "server";                       // name in a state
constexpr const char* kWhere = "update policy's state, server";  // for messages

/// The shard is in the memory of the GPU of the replica that began; other replicas may have other GPUs.
std::vector<at::Tensor> on_device_of(const CentralShard& shard, std::vector<at::Tensor> tensors) {
  if (!shard.weights.empty())
    for (at::Tensor& tensor : tensors) tensor = tensor.to(shard.weights.front().device());
  return tensors;
}

int64_t element_count(std::span<const at::Tensor> tensors) {
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

[[noreturn]] void refuse(int replica, std::string why) {
  fail_run({fmt::format("replica {}", replica), "sent an invalid request to the parameter server", std::move(why), ""});
}

/// Reads the numbers of a request that begins a shard, three for each range of padding: part, begin and end. Parts and
/// ranges ascend.
std::vector<Padding> padding_from(std::span<const double> numbers, std::span<const at::Tensor> weights, int replica) {
  std::vector<Padding> padding(weights.size());
  if (numbers.size() % 3 != 0) refuse(replica, "a number of the padding is missing");
  for (size_t i = 0; i < numbers.size(); i += 3) {
    const auto part = to_whole(numbers[i]), begin = to_whole(numbers[i + 1]), end = to_whole(numbers[i + 2]);
    const bool is_part = part && *part >= 0 && *part < int64_t(weights.size());
    const int64_t first = !is_part || padding[size_t(*part)].empty() ? 0 : padding[size_t(*part)].back().end;
    if (!is_part || !begin || !end || *begin < first || *begin >= *end || *end > weights[size_t(*part)].numel())
      refuse(replica, "its padding does not lie in the shard's weights");
    padding[size_t(*part)].push_back({*begin, *end});
  }
  return padding;
}

void check_like(std::span<const at::Tensor> told, std::span<const at::Tensor> kept, int replica) {
  if (told.empty()) return;
  if (told.size() != kept.size()) refuse(replica, fmt::format("{} tensors instead of {}", told.size(), kept.size()));
  for (size_t i = 0; i < told.size(); ++i)
    if (told[i].sizes() != kept[i].sizes() || told[i].scalar_type() != kept[i].scalar_type())
      refuse(replica, "its tensors have other shapes or dtypes than the shard's");
}

}  // namespace

double CentralRequest::number(size_t index) const {
  if (index >= numbers.size())
    fail_run(
        {"a request to the parameter server", fmt::format("{} numbers", numbers.size()), "there must be more", ""});
  if (!std::isfinite(numbers[index])) fail_run({"a request to the parameter server", "a number", "is not finite", ""});
  return numbers[index];
}

int64_t CentralRequest::whole_number(size_t index) const {
  const std::optional<int64_t> whole = to_whole(number(index));
  if (!whole)
    fail_run({"a request to the parameter server", fmt::format("{}", numbers[index]), "must be a whole number", ""});
  return *whole;
}

void CentralServer::check_brings_all(const CentralShard& shard, const CentralRequest& request) {
  if (request.parts.size() != shard.weights.size() || request.statistics.size() != shard.statistics.size())
    fail_run({"a request to the parameter server", fmt::format("{} tensors", request.parts.size()),
              fmt::format("the shard has {}", shard.weights.size()), ""});
}

std::optional<ModelValues> CentralServer::values() const {
  for (const CentralShard& shard : shards_)
    if (!shard.has_begun) return std::nullopt;
  ModelValues values{.weights = {}, .statistics = copies_of(shards_.front().statistics)};
  for (const CentralShard& shard : shards_)
    for (at::Tensor& part : copies_of_weights(shard)) values.weights.push_back(std::move(part));
  return values;
}

std::vector<at::Tensor> CentralServer::copies_of_weights(const CentralShard& shard) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& part : shard.weights) copies.push_back(part.clone());
  return copies;
}

std::vector<at::Tensor> CentralServer::differences(std::span<const at::Tensor> a, std::span<const at::Tensor> b) {
  std::vector<at::Tensor> differences;
  differences.reserve(a.size());
  for (size_t p = 0; p < a.size(); ++p) differences.push_back(a[p] - b[p]);
  return differences;
}

std::vector<at::Tensor> CentralServer::copies_of_values(const CentralShard& shard) {
  std::vector<at::Tensor> copies = copies_of_weights(shard);
  for (at::Tensor& tensor : tensors_of(copies_of(shard.statistics))) copies.push_back(std::move(tensor));
  return copies;
}

std::vector<at::Tensor> CentralServer::decoded(int index, int replica, std::vector<at::Tensor> tensors,
                                               size_t parts) const {
  const CentralShard& shard = shards_[size_t(index)];
  if (parts == 0) return tensors;
  if (parts != shard.weights.size())
    refuse(replica, fmt::format("{} tensors instead of {}", parts, shard.weights.size()));
  const Known& known = known_[size_t(index)];
  const auto of_replica = known.replicas.find(replica);
  const std::vector<at::Tensor>& begin = of_replica == known.replicas.end() ? known.at_start : of_replica->second;
  for (size_t p = 0; p < parts; ++p) {
    at::Tensor values = begin.empty() ? at::zeros_like(shard.weights[p]) : begin[p].clone();
    if (!add_decoded(*codec_, tensors[p], values, 1, shard.padding[p]))
      refuse(replica, "its tensors are no code of the shard's weights");
    tensors[p] = std::move(values);
  }
  return tensors;
}

void CentralServer::set_known(int index, int replica, std::vector<at::Tensor> weights) {
  known_[size_t(index)].replicas.insert_or_assign(replica, std::move(weights));
}

std::optional<Reply> CentralServer::serve(int index, int replica, const Request& request, double now) {
  CentralShard& shard = shards_[size_t(index)];
  if (request.operation >= kFirstOfOthers) {
    if (!shard.has_begun) refuse(replica, "no replica has begun yet");
    return serve_other(shard, replica, request);
  }
  if (request.numbers.size() < kHeader ||
      !(request.numbers[0] >= 0 && request.numbers[0] <= double(request.tensors.size())))
    refuse(replica, "its header is not valid");
  const size_t parts = size_t(request.numbers[0]);
  const bool decodes = codec_ && shard.has_begun && request.operation >= kFirstOperation;
  const std::vector<at::Tensor> tensors_here =
      on_device_of(shard, decodes ? decoded(index, replica, request.tensors, parts) : request.tensors);
  const std::span<const at::Tensor> tensors = tensors_here;
  if ((tensors.size() - parts) % 2 != 0) refuse(replica, "a batch norm's mean or variance is missing");
  if (request.operation != kStart) {
    if (!shard.has_begun) refuse(replica, "no replica has begun yet");
    check_like(tensors.first(parts), shard.weights, replica);
    check_like(tensors.subspan(parts), tensors_of(shard.statistics), replica);
  }
  const int64_t before = shard.version;
  bool is_used = false;
  std::optional<Reply> reply = Reply{};
  if (request.operation == kStart) {
    if (shard.has_begun) refuse(replica, "the server has already begun");
    begin_shard(index, replica, tensors.first(parts), tensors.subspan(parts),
                std::span(request.numbers).subspan(kHeader));
    reply->numbers = {goes_on_ ? 1.0 : 0.0};
  } else if (request.operation == kBeginAnew) {
    begin_anew(replica);
  } else if (request.operation == kNothing) {
    // nothing to do: after every visit the waiting requests are retried
  } else if (request.operation == kRead || request.operation == kReadAll) {
    reply->tensors = request.operation == kReadAll ? copies_of_values(shard) : copies_of_weights(shard);
    if (request.operation == kRead && knows_replicas()) set_known(index, replica, copies_of_weights(shard));
  } else {
    CentralRequest central{.operation = request.operation,
                           .parts = tensors.first(parts),
                           .statistics = statistics_of(tensors.subspan(parts)),
                           .numbers = request.numbers};
    central.version_read = central.whole_number(1);
    central.numbers = central.numbers.subspan(kHeader);
    reply = apply(shard, index, replica, central, now);
    is_used = central.is_used && !tensors.empty();
  }
  if (!reply) return reply;
  reply->numbers.insert(reply->numbers.begin(),
                        {double(shard.weights.size()), double(shard.version), double(before), is_used ? 1.0 : 0.0});
  return reply;
}

Reply CentralServer::serve_other(const CentralShard&, int replica, const Request& request) {
  refuse_request(replica, fmt::format("operation {} is unknown", request.operation));
}

void CentralServer::refuse_request(int replica, std::string why) { refuse(replica, std::move(why)); }

void CentralServer::begin_shard(int index, int replica, std::span<const at::Tensor> weights,
                                std::span<const at::Tensor> statistics, std::span<const double> padding) {
  CentralShard& shard = shards_[size_t(index)];
  shard.padding = padding_from(padding, weights, replica);
  for (const at::Tensor& part : weights) shard.weights.push_back(part.clone());
  shard.statistics = copies_of(statistics_of(statistics));
  if (knows_replicas()) known_[size_t(index)].at_start = copies_of_weights(shard);
  if (const std::shared_ptr<const PolicyState> saved = std::exchange(saved_[size_t(index)], nullptr)) {
    const int64_t all = saved->weights.at(kWeights).numel();
    int64_t first = 0;
    for (int s = 0; s < index; ++s) first += chunk_elements(all, shards(), s);
    StateFields in(*saved, kWhere, first);
    if (element_count(weights) != chunk_elements(all, shards(), index))
      in.refuse(kWeights, fmt::format("shard {} of {} has {} elements of the state, {} of this run", index, shards(),
                                      chunk_elements(all, shards(), index), element_count(weights)));
    fields_of_shard(in, index);
  }
  shard.has_begun = true;
}

void CentralServer::fields_of_shard(StateFields& fields, int index) {
  CentralShard& shard = shards_[size_t(index)];
  fields.weights(kWeights, shard.weights);
  if (index == 0) fields.statistics_like("server", shard.statistics);
  known_fields(fields, index);
  shard_fields(fields, index, shard);
}

void CentralServer::known_fields(StateFields& fields, int index) {
  if (!knows_replicas()) return;
  Known& known = known_[size_t(index)];
  const std::vector<at::Tensor>& like = shards_[size_t(index)].weights;
  fields.weights_if_any("known at the start", known.at_start, like);
  constexpr std::string_view kKnown = "known of replica ";
  if (fields.reads())
    for (const auto& [name, values] : fields.state().weights)
      if (const auto replica =
              name.starts_with(kKnown) ? number_in<int>(std::string_view(name).substr(kKnown.size())) : std::nullopt)
        known.replicas[*replica];
  for (auto& [replica, weights] : known.replicas)
    fields.weights_if_any(fmt::format("{}{}", kKnown, replica), weights, like);
}

void CentralServer::fields(StateFields& fields, double now) {
  std::vector<int64_t> versions;
  for (const CentralShard& shard : shards_) versions.push_back(shard.version);
  fields.value("server versions", versions);
  if (fields.reads()) {
    if (!fields.state().weights.contains(kWeights)) fields.refuse(kWeights, "the state has no such value");
    const auto saved = std::make_shared<const PolicyState>(fields.state());
    for (size_t s = 0; s < shards_.size(); ++s) {
      shards_[s].version = versions[s];
      saved_[s] = saved;
    }
    goes_on_ = true;
  } else {
    for (int s = 0; s < shards(); ++s) {
      check_internal(shards_[size_t(s)].has_begun, "a server's state is taken when replicas have begun");
      fields_of_shard(fields, s);
    }
  }
  server_fields(fields, now);
}

bool CentralClient::begin(ReplicaState& state, bool resumes) {
  const int64_t elements = element_count(state.weights);
  layout_.resize(size_t(shards_));
  size_t bucket = 0;
  int64_t offset = 0;  // offset in the bucket
  for (int s = 0; s < shards_; ++s)
    for (int64_t left = chunk_elements(elements, shards_, s); left > 0;) {
      const int64_t taken = std::min(left, state.weights[bucket].numel() - offset);
      if (taken > 0) layout_[size_t(s)].push_back({bucket, offset, taken, padding_in(state, bucket, offset, taken)});
      left -= taken;
      offset += taken;
      if (offset < state.weights[bucket].numel()) continue;
      ++bucket;
      offset = 0;
    }
  Hub::Unmetered start(hub_);
  if (hub_.joined_late()) {
    fetch(state.weights);
    write_values(read(state), state);
    return true;
  }
  double goes_on = 0;
  if (hub_.reports_for_all())
    goes_on =
        exchange({.operation = CentralServer::kStart, .tensors = state.weights, .statistics = state.statistics}, {}, {})
            .front()
            .front();
  const bool server_resumes = hub_.total(goes_on) > 0;
  if (server_resumes == resumes) return false;
  if (resumes) refuse(hub_.replica(), "the replica was resumed, but the server was not");
  exchange({.operation = CentralServer::kBeginAnew}, {}, {});
  fetch(state.weights);
  write_values(read(state), state);
  return true;
}

int read_shards(const ConfigTable& update, int fallback) {
  const int64_t shards = update.get_int("shards", fallback, 1);
  if (shards > kMaxDevices)
    update.fail("shards", fmt::format("there are at most {} servers", kMaxDevices), "choose a smaller number");
  return int(shards);
}

std::vector<at::Tensor> CentralClient::parts_of(int shard, std::span<const at::Tensor> tensors) const {
  std::vector<at::Tensor> parts;
  if (tensors.empty()) return parts;
  for (const Part& part : layout_[size_t(shard)])
    parts.push_back(tensors[part.bucket].narrow(0, part.offset, part.elements));
  return parts;
}

/// Returns three numbers for each range of padding, as padding_from reads them.
std::vector<double> CentralClient::padding_of(int shard) const {
  std::vector<double> numbers;
  const std::vector<Part>& parts = layout_[size_t(shard)];
  for (size_t p = 0; p < parts.size(); ++p)
    for (const Range& range : parts[p].padding)
      numbers.insert(numbers.end(), {double(p), double(range.begin), double(range.end)});
  return numbers;
}

std::vector<std::vector<double>> CentralClient::exchange(const Call& call, std::span<at::Tensor> into, const Take& take,
                                                         std::span<RunningStatistics> statistics) {
  std::vector<Hub::ShardRequest> requests;
  for (int s = 0; s < shards_; ++s) {
    Request request{.operation = call.operation, .tensors = parts_of(s, call.tensors)};
    if (call.feedback) {
      const std::vector<at::Tensor> errors = parts_of(s, call.feedback->errors(call.tensors));
      for (size_t p = 0; p < errors.size(); ++p)
        request.tensors[p] = call.feedback->encode(request.tensors[p], errors[p], layout_[size_t(s)][p].padding);
    }
    request.numbers = {double(request.tensors.size()), double(versions_[size_t(s)])};
    request.numbers.insert(request.numbers.end(), call.numbers.begin(), call.numbers.end());
    if (!call.of_shards.empty()) request.numbers.push_back(call.of_shards[size_t(s)]);
    if (call.operation == CentralServer::kStart)
      for (const double number : padding_of(s)) request.numbers.push_back(number);
    if (s == 0)
      for (at::Tensor& tensor : tensors_of(call.statistics)) request.tensors.push_back(std::move(tensor));
    requests.push_back({s, std::move(request)});
  }
  std::vector<Reply> replies = hub_.visit(std::move(requests));
  std::vector<std::vector<double>> numbers;
  for (int s = 0; s < shards_; ++s) {
    Reply& reply = replies[size_t(s)];
    const auto version = int64_t(reply.numbers[1]), before = int64_t(reply.numbers[2]);
    if (s == 0) count_staleness(before, version, reply.numbers[3] != 0, call.reads);
    if (call.reads) versions_[size_t(s)] = version;
    numbers.emplace_back(reply.numbers.begin() + kReplyHeader, reply.numbers.end());
    if (take && !reply.tensors.empty()) {
      std::vector<at::Tensor> mine = parts_of(s, into);
      for (size_t p = 0; p < mine.size(); ++p) take(mine[p], reply.tensors[p].to(mine[p].device()));
    }
    const auto parts = size_t(reply.numbers[0]);
    if (s == 0 && !statistics.empty() && reply.tensors.size() > parts)
      copy_statistics(statistics_of(std::span(reply.tensors).subspan(parts)), statistics);
  }
  return numbers;
}

/// Call it with the reply of shard 0, before its version is stored.
void CentralClient::count_staleness(int64_t before, int64_t version, bool is_used, bool reads) {
  if (is_used) {
    hub_.count_staleness(before - versions_[0] - own_updates_);
    own_updates_ += version - before;
  }
  if (reads) own_updates_ = 0;
}

/// The value "own updates ..." is missing in states of clients that read with each update, and in older states.
void CentralClient::fields(StateFields& fields) {
  constexpr const char* kOwn = "own updates since it read";
  fields.value("versions read", versions_);
  const bool has_own = fields.reads() ? fields.state().integers.contains(kOwn) : own_updates_ > 0;
  if (has_own) fields.value(kOwn, own_updates_);
}

void CentralClient::fetch(std::span<at::Tensor> weights) {
  exchange({.operation = CentralServer::kRead, .reads = true}, weights,
           [](at::Tensor& mine, const at::Tensor& told) { mine.copy_(told); });
}

void CentralClient::release_waiting() {
  Hub::Unmetered quiet(hub_);
  exchange({.operation = CentralServer::kNothing}, {}, {});
}

ModelValues CentralClient::read(const ReplicaState& state) {
  Hub::Unmetered evaluation(hub_);
  ModelValues values = values_of(state);
  exchange(
      {.operation = CentralServer::kReadAll}, values.weights,
      [](at::Tensor& mine, const at::Tensor& told) { mine.copy_(told); }, values.statistics);
  return values;
}

}  // namespace trireme
