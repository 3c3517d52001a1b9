#include "comm/local/local_world.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "comm/local/local_communicator.h"
#include "comm/local/local_state.h"
#include "comm/virtual/virtual_time.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kNoParent = -1;

}  // namespace

LocalWorld::LocalWorld(int size, std::shared_ptr<EmulatedLinks> links) {
  check_internal(size >= 1, fmt::format("a local world has at least one rank, not {}", size));
  state_ = std::make_shared<LocalState>(size, std::move(links));
}

LocalWorld::LocalWorld(int size, std::shared_ptr<VirtualTime> time) : LocalWorld(size) {
  state_->live_by(std::move(time));
}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const { return state_->size(); }

std::unique_ptr<Communicator> LocalWorld::communicator(int rank) {
  check_internal(rank >= 0 && rank < size(), fmt::format("rank {} is not one of a world of {}", rank, size()));
  std::vector<int> everyone(size());
  std::iota(everyone.begin(), everyone.end(), 0);
  if (VirtualTime* const time = state_->virtual_time()) time->enter(rank);
  return std::make_unique<LocalCommunicator>(state_, state_->group(kNoParent, everyone, 0), rank, nullptr);
}

void LocalWorld::move_beside_computing() { state_->move_beside_computing(); }
void LocalWorld::abort(const std::string& reason) { state_->abort(reason); }
bool LocalWorld::aborted() const { return state_->aborted(); }
std::string LocalWorld::abort_reason() const { return state_->abort_reason(); }

double LocalWorld::wait_for(const std::atomic<int64_t>& counter, int64_t target, double until, const char* what) {
  return state_->wait_for(counter, target, until, what);
}
double LocalWorld::now() const { return state_->now(); }
void LocalWorld::advance(std::atomic<int64_t>& counter, int64_t by) { state_->advance(counter, by); }

}  // namespace trireme
