#include "comm/group_member.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "trireme/error.h"

namespace trireme {

CommunicationCount operator-(const CommunicationCount& after, const CommunicationCount& before) {
  return {.bytes_sent = after.bytes_sent - before.bytes_sent,
          .steps = after.steps - before.steps,
          .operations = after.operations - before.operations,
          .wait_seconds = after.wait_seconds - before.wait_seconds};
}

void Tally::add(const CommunicationCount& more) {
  std::shared_ptr<Tally> parent;
  {
    const MutexLock lock(mutex_);
    count_.bytes_sent += more.bytes_sent;
    count_.steps += more.steps;
    count_.operations += more.operations;
    count_.wait_seconds += more.wait_seconds;
    parent = parent_;
  }
  if (parent) parent->add(more);
}

void Tally::detach() {
  const MutexLock lock(mutex_);
  parent_.reset();
}

CommunicationCount Tally::count() const {
  const MutexLock lock(mutex_);
  return count_;
}

std::string shape_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

GroupMember::GroupMember(int rank, std::shared_ptr<Tally> parent)
    : rank_(rank), tally_(std::make_shared<Tally>(std::move(parent))) {}

void GroupMember::require(bool condition, const std::string& operation, const std::string& promise) {
  if (condition) return;
  const std::string message = fmt::format("rank {}: {}: {}", rank_, operation, promise);
  abort(message);
  check_internal(false, message);
}

void GroupMember::require_rank(int rank, const std::string& operation) {
  require(rank >= 0 && rank < size(), operation, fmt::format("there is no rank {} in a group of {}", rank, size()));
}

void GroupMember::record(int64_t bytes, int64_t steps, double waited) {
  tally_->add({.bytes_sent = bytes, .steps = steps, .operations = 1, .wait_seconds = waited});
}

int GroupMember::rank_in(std::span<const int> ranks) {
  const std::string list = fmt::format("ranks {} of a group of {}", fmt::join(ranks, ","), size());
  require(std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end(), "group",
          list + " are not ascending");
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  require(mine != ranks.end(), "group", list + " do not contain the calling rank");
  require_rank(ranks.front(), "group");
  require_rank(ranks.back(), "group");
  return static_cast<int>(mine - ranks.begin());
}

FlightRecorder* flight_recorder(Communicator& communicator) {
  auto* const member = dynamic_cast<GroupMember*>(&communicator);
  return member ? member->recorder() : nullptr;
}

int64_t bytes_of(const at::Tensor& tensor) { return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0; }

std::vector<int64_t> bytes_of_each(std::span<const at::Tensor> tensors) {
  std::vector<int64_t> bytes;
  for (const at::Tensor& tensor : tensors) bytes.push_back(bytes_of(tensor));
  return bytes;
}

}  // namespace trireme
