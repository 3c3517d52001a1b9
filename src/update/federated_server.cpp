#include "update/federated_server.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "trireme/error.h"
#include "update/local_parts.h"
#include "update/statistics.h"

namespace trireme {
namespace {

void make_zeros(std::vector<at::Tensor>& tensors, const CentralShard& shard) {
  if (tensors.empty())
    for (const at::Tensor& weights : shard.weights) tensors.push_back(at::zeros_like(weights, at::kDouble));
}

/// Returns copies of the values as the tensors of a reply.
std::vector<at::Tensor> tensors_of_copy(const ModelValues& values) {
  const ModelValues copy = copy_of(values);
  std::vector<at::Tensor> tensors = copy.weights;
  for (at::Tensor& tensor : tensors_of(copy.statistics)) tensors.push_back(std::move(tensor));
  return tensors;
}

}  // namespace

void refuse_private_statistics() {
  fail_user({"differential privacy (noise)", "the model has running statistics (batch norm)",
             "the server would get them without noise, and they tell something about the clients' samples",
             "choose a model without them, or leave noise out"});
}

std::optional<ModelValues> FederatedServer::values() const {
  std::optional<ModelValues> shared = CentralServer::values();
  if (!shared || !local_) return shared;
  if (own_.empty()) return std::nullopt;
  return joined(*local_, *shared, mean_of(own_));
}

std::map<int, ModelValues> FederatedServer::own_models() const {
  std::map<int, ModelValues> models;
  const std::optional<ModelValues> shared = local_ ? CentralServer::values() : std::nullopt;
  if (!shared) return models;
  for (const auto& [client, own] : own_) models[client] = joined(*local_, *shared, copy_of(own));
  return models;
}

std::vector<RoundRecord> FederatedServer::records() const {
  MutexLock lock(mutex_);
  return records_;
}

std::optional<Reply> FederatedServer::apply(CentralShard& shard, int, int client, CentralRequest& request, double now) {
  while (rounds_.is_complete(now)) end_round(shard, now);
  if (request.operation == kJoin) return join(shard, client);
  if (request.operation == kVariate) return variate(shard, client, request.whole_number(0));
  if (request.operation == kChange) note_change(shard, client, request);
  if (request.operation == kLeave) rounds_.leave(client);
  if (request.operation == kReturn) rounds_.come_back(client, now);
  if (request.operation == kAnswer) {
    check_brings_all(shard, request);
    request.is_used = rounds_.answer(client, request.whole_number(0)) && take(client, request);
    changes_.erase(client);
  }
  while (rounds_.is_complete(now)) end_round(shard, now);
  return Reply{.numbers = {double(request.is_used)}};
}

Reply FederatedServer::serve_other(const CentralShard& shard, int client, const Request& request) {
  if (!local_ || request.operation > kMean) return CentralServer::serve_other(shard, client, request);
  if (request.operation == kKeep) {
    keep(shard, client, request);
    return {};
  }
  if (own_.empty()) refuse_request(client, "no replica has brought local parameters yet");
  const auto own = own_.find(client);
  const bool has_own = request.operation == kOwn && own != own_.end();
  return {.tensors = tensors_of_copy(has_own ? own->second : mean_of(own_)), .numbers = {}};
}

void FederatedServer::keep(const CentralShard& shard, int client, const Request& request) {
  ModelValues own;
  size_t next = 0;
  for (const LocalParts::Run& run : local_->runs) {
    if (!run.is_local) continue;
    if (next == request.tensors.size()) refuse_request(client, "a local parameter is missing");
    const at::Tensor& values = request.tensors[next++];
    if (values.dim() != 1 || values.numel() != run.elements ||
        values.scalar_type() != shard.weights.front().scalar_type())
      refuse_request(client, "its local parameters have other shapes or dtypes than the model's");
    own.weights.push_back(values.to(shard.weights.front().device(), /*non_blocking=*/false, /*copy=*/true));
  }
  const std::span<const at::Tensor> rest = std::span(request.tensors).subspan(next);
  own.statistics = copies_of(statistics_of(rest));
  const ModelValues& known = own_.empty() ? own : own_.begin()->second;
  bool fits =
      rest.size() == 2 * known.statistics.size() &&
      std::ptrdiff_t(own.statistics.size()) == std::count(local_->statistics.begin(), local_->statistics.end(), true);
  for (size_t s = 0; fits && s < own.statistics.size(); ++s)
    for (const at::Tensor& tensor : {own.statistics[s].mean, own.statistics[s].variance})
      fits = fits && tensor.is_floating_point() && tensor.sizes() == known.statistics[s].mean.sizes();
  if (!fits) refuse_request(client, "its local statistics have other shapes or dtypes than the model's");
  if (all_finite(request.tensors)) own_[client] = std::move(own);
}

void FederatedServer::server_fields(StateFields& fields, double now) {
  rounds_.fields(fields, now);
  if (options_.control_variates) {
    fields.value("epoch of control variates", epoch_);
    std::vector<int64_t> counted(counted_.begin(), counted_.end());
    fields.value("clients with a control variate", counted);
    counted_ = {counted.begin(), counted.end()};
  }
  if (local_) {
    std::vector<int64_t> clients;
    for (const auto& [client, own] : own_) clients.push_back(client);
    fields.value("clients with local parameters", clients);
    for (const int64_t client : clients) own_.try_emplace(int(client));  // shard_fields restores them
  }
  bool stops = stops_;
  fields.value("rounds stop", stops);
  stops_ = stops && !fields.reads();  // a resumed run decides anew when it ends
  if (fields.reads()) rounds_.reopen(now);
  if (fields.reads()) resumed_ = now;
  MutexLock lock(mutex_);
  record_fields(fields, kRecordsOver, records_);
}

void FederatedServer::shard_fields(StateFields& fields, int, CentralShard& shard) {
  sum_.fields(fields, shard.weights);
  optimizer_.fields(fields, shard.weights);
  if (local_) {
    std::vector<at::Tensor> like;
    for (const LocalParts::Run& run : local_->runs)
      if (run.is_local) like.push_back(at::empty({run.elements}, shard.weights.front().options()));
    for (auto& [client, own] : own_) {
      const std::string name = fmt::format("local parameters of {}", client);
      fields.weights_if_any(name, own.weights, like);
      fields.statistics(name, own.statistics);
    }
  }
  if (!options_.control_variates) return;
  fields.weights_if_any("control variate", variate_, shard.weights, at::kDouble);
  fields.weights_if_any("change of the control variate", change_, shard.weights, at::kDouble);
}

std::optional<Reply> FederatedServer::join(const CentralShard& shard, int client) {
  if (rounds_.is_over()) return Reply{.numbers = {kIsOver, 0}};
  if (holds()) return Reply{.numbers = {kIsHeld, 0}};
  if (!rounds_.may_begin(client)) return std::nullopt;
  rounds_.begin(client);
  changes_.erase(client);  // left by an earlier connection of the client, which broke
  return Reply{.tensors = copies_of_values(shard), .numbers = {kWorks, double(rounds_.round())}};
}

/// `told`: the epoch of the client's own variate; -1: it has none. If a client has lost its variate, which is a part of
/// the mean, the mean would stay wrong. So a new epoch begins, in which all variates are zero.
Reply FederatedServer::variate(const CentralShard& shard, int client, int64_t told) {
  if (counted_.contains(client) && told != epoch_) {
    ++epoch_;
    variate_.clear();
    change_.clear();
    changes_.clear();
    counted_.clear();
  }
  make_zeros(variate_, shard);
  Reply reply{.numbers = {double(epoch_)}};
  for (size_t p = 0; p < variate_.size(); ++p)
    reply.tensors.push_back(variate_[p].to(shard.weights[p].scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  return reply;
}

/// Stores the change of a client's variate. It counts if the client's answer, which follows, counts.
void FederatedServer::note_change(const CentralShard& shard, int client, CentralRequest& request) {
  request.is_used = false;  // only the answer counts as used
  if (request.parts.size() != shard.weights.size())
    fail_run({"a request to the parameter server", "it brings no control variate", "", "use the same policy"});
  if (request.whole_number(0) != epoch_) return;
  std::vector<at::Tensor>& change = changes_[client];
  change.clear();
  for (const at::Tensor& part : request.parts)
    change.push_back(part.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
}

/// Returns true if the update becomes part of the round.
bool FederatedServer::take(int client, const CentralRequest& request) {
  if (options_.privacy.is_wanted() && !request.statistics.empty()) refuse_private_statistics();
  const double samples = request.number(1);
  const double progress = options_.aggregate.kind == AggregateOptions::Kind::normalized ? request.number(2) : 0;
  std::vector<at::Tensor> update;
  double squares = 0;
  for (const at::Tensor& part : request.parts) {
    update.push_back(part.to(at::kDouble));
    squares += update.back().dot(update.back()).item<double>();
  }
  const auto change = changes_.find(client);
  const bool finite = std::isfinite(squares) && samples > 0 && progress >= 0 &&
                      all_finite(tensors_of(request.statistics)) &&
                      (change == changes_.end() || all_finite(change->second));
  if (!finite) {
    ++rounds_.record().refused;
    rounds_.record().refused_clients.push_back(client);
    return false;
  }
  const double norm = std::sqrt(squares);
  const bool clips = options_.clip_norm > 0 && norm > options_.clip_norm;
  rounds_.record().clipped += clips ? 1 : 0;
  ++rounds_.record().answered;
  sum_.add({.update = update,
            .scale = clips ? options_.clip_norm / norm : 1,
            .statistics = request.statistics,
            .samples = samples,
            .progress = progress});
  if (change != changes_.end()) {
    counted_.insert(client);
    if (change_.empty()) change_ = change->second;
    else
      for (size_t p = 0; p < change_.size(); ++p) change_[p].add_(change->second[p]);
  }
  return true;
}

/// Returns the round's update; empty if too few clients have answered. With privacy, a round without answers has an
/// update too, so that the result does not reveal that there were none.
std::vector<at::Tensor> FederatedServer::update_of_round(const CentralShard& shard) const {
  const PrivacyOptions& privacy = options_.privacy;
  if (!privacy.is_wanted()) return sum_.is_enough() ? sum_.update() : std::vector<at::Tensor>();
  const double expected = options_.rounds.fraction * options_.rounds.clients;
  std::vector<at::Tensor> update = sum_.total();
  make_zeros(update, shard);
  add_noise(update, privacy.noise * options_.clip_norm, *options_.rounds.secret, rounds_.round());
  for (size_t p = 0; p < update.size(); ++p) {
    clear_padding(update[p], shard.padding[p]);  // it has no values, and the clients' padding stays 0
    update[p].div_(expected);
  }
  return update;
}

ModelValues FederatedServer::values_of_round(const CentralShard& shard) const {
  ModelValues values{.weights = shard.weights, .statistics = shard.statistics};
  return local_ && !own_.empty() ? joined(*local_, values, mean_of(own_)) : values;
}

void FederatedServer::end_round(CentralShard& shard, double now) {
  if (std::vector<at::Tensor> update = update_of_round(shard); !update.empty()) {
    optimizer_.step(shard.weights, update);
    if (!options_.privacy.is_wanted()) copy_statistics(sum_.statistics(), shard.statistics);
    ++shard.version;
  }
  if (!change_.empty()) {
    make_zeros(variate_, shard);
    for (size_t p = 0; p < change_.size(); ++p) variate_[p].add_(change_[p], 1.0 / options_.rounds.clients);
    change_.clear();
  }
  RoundRecord record = rounds_.record();
  record.samples = sum_.samples();
  record.seconds = run_seconds_ ? run_seconds_(now) : now;
  sum_.clear();
  if (on_round_) on_round_(record, values_of_round(shard));
  if (stops_) rounds_.stop();
  else rounds_.next(now);
  MutexLock lock(mutex_);
  records_.push_back(record);
}

}  // namespace trireme
