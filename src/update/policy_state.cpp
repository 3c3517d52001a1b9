#include "update/policy_state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "trireme/error.h"
#include "update/statistics.h"

namespace trireme {
namespace {

constexpr const char* kNext = "resume with the experiment that the checkpoint was written under, or start without it";

[[noreturn]] void refuse_state(const std::string& where, const std::string& what, std::string why) {
  fail_user({where, what, std::move(why), kNext});
}

template <class T>
const T& found(const std::map<std::string, T>& values, const std::string& name, const std::string& where) {
  const auto entry = values.find(name);
  if (entry == values.end()) refuse_state(where, fmt::format("\"{}\"", name), "the state has no such value");
  return entry->second;
}

template <class T>
void refuse_unused(const std::map<std::string, T>& values, const std::set<std::string>& used,
                   const std::string& where) {
  for (const auto& [name, value] : values)
    if (!used.contains(name)) refuse_state(where, fmt::format("\"{}\"", name), "the policy has no such value");
}

/// The options of a policy's description, "name,key=value,flag", by their keys; that of a flag is all of it. The name
/// has the key "".
std::map<std::string, std::string> options_in(const std::string& description) {
  std::map<std::string, std::string> options;
  std::istringstream pieces(description);
  for (std::string piece; std::getline(pieces, piece, ',');)
    options[options.empty() ? "" : piece.substr(0, piece.find('='))] = piece;
  return options;
}

/// "mu=0.1, no control_variates": the options that differ from those of the other policy.
std::string own_options(const std::map<std::string, std::string>& own,
                        const std::map<std::string, std::string>& others) {
  std::vector<std::string> differing;
  for (const auto& [key, option] : own) {
    const auto other = others.find(key);
    if (other == others.end() || other->second != option) differing.push_back(option);
  }
  for (const auto& [key, option] : others)
    if (!own.contains(key)) differing.push_back("no " + key);
  return join(differing);
}

/// A checkpoint is written from the host's memory.
at::Tensor host_copy(const at::Tensor& tensor) {
  return tensor.to(tensor.options().device(at::kCPU), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

PolicyStateParts parts_of(const PolicyState& state) {
  nlohmann::json head = {{"policy", state.policy},
                         {"integers", state.integers},
                         {"reals", state.reals},
                         {"statistics", nlohmann::json::object()}};
  PolicyStateParts parts;
  for (const auto& [name, values] : state.weights) parts.tensors.emplace_back("weights/" + name, values);
  for (const auto& [name, statistics] : state.statistics) {
    head["statistics"][name] = statistics.size();
    for (size_t i = 0; i < statistics.size(); ++i) {
      parts.tensors.emplace_back(fmt::format("statistics/{}/{}/mean", name, i), statistics[i].mean);
      parts.tensors.emplace_back(fmt::format("statistics/{}/{}/variance", name, i), statistics[i].variance);
    }
  }
  parts.text = head.dump();
  return parts;
}

PolicyState policy_state_from(const PolicyStateParts& parts, const std::string& where) {
  std::map<std::string, at::Tensor> tensors(parts.tensors.begin(), parts.tensors.end());
  const auto take = [&](const std::string& name) {
    const auto entry = tensors.find(name);
    if (entry == tensors.end()) refuse_state(where, fmt::format("\"{}\"", name), "the tensor is missing");
    at::Tensor tensor = entry->second;
    tensors.erase(entry);
    return tensor;
  };
  PolicyState state;
  try {
    const nlohmann::json head = nlohmann::json::parse(parts.text);
    head.at("policy").get_to(state.policy);
    head.at("integers").get_to(state.integers);
    head.at("reals").get_to(state.reals);
    for (const auto& [name, count] : head.at("statistics").items()) {
      std::vector<RunningStatistics>& statistics = state.statistics[name];
      for (size_t i = 0; i < count.get<size_t>(); ++i)
        statistics.push_back({take(fmt::format("statistics/{}/{}/mean", name, i)),
                              take(fmt::format("statistics/{}/{}/variance", name, i))});
    }
  } catch (const nlohmann::json::exception& error) {
    refuse_state(where, "the state of an update policy", fmt::format("its text cannot be read ({})", error.what()));
  }
  const std::string prefix = "weights/";
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix))
      refuse_state(where, fmt::format("\"{}\"", name), "it is not a tensor of an update policy");
    state.weights[name.substr(prefix.size())] = tensor;
  }
  return state;
}

void check_same_policy(const std::string& where, const std::string& written, const std::string& mine) {
  if (written == mine) return;
  const std::map<std::string, std::string> theirs = options_in(written), ours = options_in(mine);
  const auto name_of_policy = [](const auto& options) { return options.empty() ? "" : options.begin()->second; };
  const std::string theirs_name = name_of_policy(theirs), our_name = name_of_policy(ours);
  const bool other_name = theirs_name != our_name;
  fail_user({where, other_name ? "update policy" : fmt::format("update policy {}", our_name),
             fmt::format("the checkpoint has {}, this run {}", other_name ? theirs_name : own_options(theirs, ours),
                         other_name ? our_name : own_options(ours, theirs)),
             "resume with the policy and options that the checkpoint was written under"});
}

void StateFields::refuse(const std::string& what, std::string why) const {
  refuse_state(where_, fmt::format("\"{}\"", what), std::move(why));
}

template <class T>
void StateFields::list(std::map<std::string, std::vector<T>>* out, const std::map<std::string, std::vector<T>>& in,
                       const std::string& name, std::vector<T>& values) {
  if (out) {
    check_internal(out->emplace(name, values).second, "a policy's values have names of their own");
    return;
  }
  const std::vector<T>& saved = found(in, name, where_);
  if (!values.empty() && saved.size() != values.size())
    refuse(name, fmt::format("the state has {} numbers, this run {}", saved.size(), values.size()));
  values = saved;
  used_.insert(name);
}

void StateFields::value(const std::string& name, std::vector<int64_t>& values) {
  list(out_ ? &out_->integers : nullptr, state_.integers, name, values);
}

void StateFields::value(const std::string& name, std::vector<double>& values) {
  list(out_ ? &out_->reals : nullptr, state_.reals, name, values);
}

void StateFields::value(const std::string& name, int64_t& value) {
  std::vector<int64_t> one = {value};
  this->value(name, one);
  value = one.front();
}

void StateFields::value(const std::string& name, int& value) {
  int64_t wide = value;
  this->value(name, wide);
  if (wide != int(wide)) refuse(name, fmt::format("{} is too large", wide));
  value = int(wide);
}

void StateFields::value(const std::string& name, bool& value) {
  int64_t wide = value ? 1 : 0;
  this->value(name, wide);
  if (wide != 0 && wide != 1) refuse(name, fmt::format("{} is neither 0 nor 1", wide));
  value = wide == 1;
}

void StateFields::value(const std::string& name, double& value) {
  std::vector<double> one = {value};
  this->value(name, one);
  value = one.front();
}

void StateFields::weights(const std::string& name, std::span<at::Tensor> parts) {
  if (!reads()) {
    std::vector<at::Tensor>& all = written_[name];
    for (const at::Tensor& part : parts) all.push_back(host_copy(part));
    return;
  }
  const at::Tensor& saved = found(state_.weights, name, where_);
  int64_t& next = next_element_.try_emplace(name, first_element_).first->second;
  for (at::Tensor& part : parts) {
    if (part.scalar_type() != saved.scalar_type())
      refuse(name, fmt::format("the state has values of type {}, this run of type {}",
                               c10::toString(saved.scalar_type()), c10::toString(part.scalar_type())));
    if (next + part.numel() > saved.numel())
      refuse(name, fmt::format("the state has {} elements, this run more", saved.numel()));
    part.copy_(saved.narrow(0, next, part.numel()));
    next += part.numel();
  }
}

void StateFields::weights_if_any(const std::string& name, std::vector<at::Tensor>& parts,
                                 std::span<const at::Tensor> like, std::optional<at::ScalarType> dtype) {
  if (reads()) {
    parts.clear();
    if (!state_.weights.contains(name)) return;
    for (const at::Tensor& part : like)
      parts.push_back(at::empty(part.sizes(), part.options().dtype(dtype.value_or(part.scalar_type()))));
  }
  if (!parts.empty()) weights(name, parts);
}

void StateFields::statistics(const std::string& name, std::vector<RunningStatistics>& statistics) {
  if (!reads()) {
    std::vector<RunningStatistics>& saved = out_->statistics[name];
    for (const RunningStatistics& s : statistics) saved.push_back({host_copy(s.mean), host_copy(s.variance)});
    return;
  }
  statistics = copies_of(found(state_.statistics, name, where_));
  used_.insert(name);
}

void StateFields::statistics_like(const std::string& name, std::vector<RunningStatistics>& statistics) {
  std::vector<RunningStatistics> saved = statistics;
  this->statistics(name, saved);
  if (!reads()) return;
  const std::vector<at::Tensor> mine = tensors_of(statistics), theirs = tensors_of(saved);
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  };
  if (!std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), same))
    refuse(name, "the state is of other batch norms than this run");
  for (size_t i = 0; i < saved.size(); ++i) {
    const c10::Device device = statistics[i].mean.device();
    statistics[i] = {saved[i].mean.to(device), saved[i].variance.to(device)};
  }
}

void StateFields::done() {
  if (!reads()) {
    for (const auto& [name, parts] : written_) out_->weights[name] = parts.empty() ? at::empty({0}) : at::cat(parts);
    written_.clear();
    return;
  }
  refuse_unused(state_.integers, used_, where_);
  refuse_unused(state_.reals, used_, where_);
  refuse_unused(state_.statistics, used_, where_);
  for (const auto& [name, values] : state_.weights) {
    const auto next = next_element_.find(name);
    if (next == next_element_.end()) refuse(name, "the policy has no such value");
    if (next->second != values.numel())
      refuse(name, fmt::format("the state has {} elements, this run {}", values.numel(), next->second));
  }
}

}  // namespace trireme
