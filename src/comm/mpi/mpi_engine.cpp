#include "comm/mpi/mpi_engine.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "comm/rendezvous/key_exchange.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int64_t kPieceBytes = 1 << 30;  // MPI counts in int
constexpr milliseconds kEndLimit{3000};   // for the end of the other ranks, after a failure
constexpr milliseconds kClearLimit{200};  // for cancelled receives

// MPI cannot sleep until something arrives. Polling costs about a microsecond. Ranks may have fewer cores than threads.
constexpr microseconds kEagerly{100};  // after an event: poll, yield, poll
constexpr microseconds kFirstNap{10}, kLongestNap{150};
constexpr unsigned long kTimerSlack = 1000;  // ns; with the system's 50 us most naps would be as long as the slack

std::string text_of_error(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, size_t(length)};
}

}  // namespace

struct MpiEngine::State {
  Mutex mutex;
  ConditionVariable asked;    // work for the thread
  ConditionVariable changed;  // `started` or `ended`
  bool started TRIREME_GUARDED_BY(mutex) = false;
  bool ended TRIREME_GUARDED_BY(mutex) = false;
  bool stopping TRIREME_GUARDED_BY(mutex) = false;
  bool broken TRIREME_GUARDED_BY(mutex) = false;
  std::string trouble TRIREME_GUARDED_BY(mutex);  // why MPI did not start
  std::vector<std::shared_ptr<MpiOperation>> to_start TRIREME_GUARDED_BY(mutex), to_withdraw TRIREME_GUARDED_BY(mutex);
  int rank TRIREME_GUARDED_BY(mutex) = 0;
  int size TRIREME_GUARDED_BY(mutex) = 1;
  int greatest_tag TRIREME_GUARDED_BY(mutex) = 0;

  // of the thread alone: `requests[i]` is one of `owners[i]`'s pieces
  std::vector<MPI_Request> requests;
  std::vector<std::shared_ptr<MpiOperation>> owners;
  std::vector<int> finished;
  std::vector<MPI_Status> statuses;

  bool open();
  void close();
  void begin(const std::shared_ptr<MpiOperation>& operation);
  void withdraw(const MpiOperation& operation);
  bool look();
  void end_piece(const std::shared_ptr<MpiOperation>& operation, int error);
};

bool MpiEngine::State::open() {
  int provided = 0, running = 0, found = 0;
  MPI_Initialized(&running);
  const int error = running ? MPI_SUCCESS : MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  const MutexLock lock(mutex);
  started = true;
  changed.notify_all();
  if (running) trouble = "other code in this process has already started MPI";
  else if (error != MPI_SUCCESS) trouble = "MPI_Init_thread failed";
  else if (provided < MPI_THREAD_FUNNELED) trouble = "it does not allow programs with several threads";
  if (!trouble.empty()) return false;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // duplicates inherit it
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int* greatest = nullptr;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &greatest, &found);
  greatest_tag = found ? *greatest : 32767;  // the minimum that the standard requires
  return true;
}

void MpiEngine::State::close() {
  for (const auto& operation : std::vector(owners)) withdraw(*operation);
  for (const Clock::time_point end = Clock::now() + kClearLimit; !requests.empty() && Clock::now() < end;) look();
  MPI_Finalize();
  const MutexLock lock(mutex);
  ended = true;
  changed.notify_all();
}

// The pieces of one tensor have one tag: MPI preserves their order, and both ends cut alike.
void MpiEngine::State::begin(const std::shared_ptr<MpiOperation>& operation) {
  MpiOperation& o = *operation;
  const auto add = [&](int error, MPI_Request request) {
    ++o.pieces;
    if (error != MPI_SUCCESS) return end_piece(operation, error);
    requests.push_back(request);
    owners.push_back(operation);
  };
  MPI_Request request = MPI_REQUEST_NULL;
  if (o.kind == MpiOperation::Kind::create_communicator) {
    const int error = MPI_Comm_idup(MPI_COMM_WORLD, &o.world, &request);
    return add(error, request);
  }
  auto* bytes = static_cast<char*>(o.data.data_ptr());
  const auto all = int64_t(o.data.nbytes());
  for (int64_t at = 0; at == 0 || at < all; at += kPieceBytes) {
    const int count = int(std::min(kPieceBytes, all - at));
    const int error = o.kind == MpiOperation::Kind::send
                          ? MPI_Isend(bytes + at, count, MPI_BYTE, o.peer, o.tag, o.world, &request)
                          : MPI_Irecv(bytes + at, count, MPI_BYTE, o.peer, o.tag, o.world, &request);
    add(error, request);
    if (error != MPI_SUCCESS) return;  // the earlier pieces end by themselves
  }
}

void MpiEngine::State::withdraw(const MpiOperation& operation) {
  if (operation.kind != MpiOperation::Kind::receive) return;
  for (size_t i = 0; i < requests.size(); ++i)
    if (owners[i].get() == &operation && requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests[i]);
}

/// Returns true if any operation has ended.
bool MpiEngine::State::look() {
  if (requests.empty()) return false;
  finished.resize(requests.size());
  statuses.resize(requests.size());
  int count = 0;
  const int error = MPI_Testsome(int(requests.size()), requests.data(), &count, finished.data(), statuses.data());
  if (count <= 0) return false;  // MPI_UNDEFINED: no request is active
  for (int i = 0; i < count; ++i)
    end_piece(owners[size_t(finished[size_t(i)])],
              error == MPI_ERR_IN_STATUS ? statuses[size_t(i)].MPI_ERROR : MPI_SUCCESS);
  size_t kept = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    requests[kept] = requests[i];
    std::swap(owners[kept], owners[i]);
    ++kept;
  }
  requests.resize(kept);
  owners.resize(kept);
  return true;
}

void MpiEngine::State::end_piece(const std::shared_ptr<MpiOperation>& operation, int error) {
  if (operation->error == MPI_SUCCESS) operation->error = error;
  if (--operation->pieces > 0) return;
  const MutexLock lock(mutex);
  operation->done = true;
  if (operation->error != MPI_SUCCESS) operation->trouble = text_of_error(operation->error);
  operation->changed.notify_all();
}

void MpiEngine::run(State& state) {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlack);
  if (!state.open()) return;
  std::vector<std::shared_ptr<MpiOperation>> begun, withdrawn;
  Clock::time_point last = Clock::now();
  microseconds nap = kFirstNap;
  while (true) {
    {
      MutexLock lock(state.mutex);
      const auto has_work = [&]() TRIREME_REQUIRES(state.mutex) {
        return state.stopping || !state.to_start.empty() || !state.to_withdraw.empty();
      };
      if (!has_work() && Clock::now() - last > kEagerly) {
        if (state.requests.empty()) state.asked.wait(state.mutex, has_work);
        else if (!state.asked.wait_for(state.mutex, nap, has_work)) nap = std::min(2 * nap, kLongestNap);
      }
      if (state.stopping) break;
      begun.swap(state.to_start);
      withdrawn.swap(state.to_withdraw);
    }
    for (const auto& operation : begun) state.begin(operation);
    for (const auto& operation : withdrawn) state.withdraw(*operation);
    if (state.look() || !begun.empty()) {
      last = Clock::now();
      nap = kFirstNap;
    } else {
      std::this_thread::yield();
    }
    begun.clear();
    withdrawn.clear();
  }
  state.close();
}

MpiEngine& MpiEngine::instance() {
  static MpiEngine engine;
  return engine;
}

MpiEngine::MpiEngine() : state_(std::make_shared<State>()) {
  std::thread([state = state_] { run(*state); }).detach();
  MutexLock lock(state_->mutex);
  const auto has_started = [&]() TRIREME_REQUIRES(state_->mutex) { return state_->started; };
  if (!state_->changed.wait_for(state_->mutex, std::chrono::duration<double>(kReportsWaitAfter), has_started))
    spdlog::warn("MPI has not started yet: it waits until all ranks are there");
  state_->changed.wait(state_->mutex, has_started);
  if (!state_->trouble.empty())
    fail_run({.where = "backend mpi",
              .what = "MPI does not start",
              .why = state_->trouble,
              .next = "use the backend gloo, or another MPI"});
  rank_ = state_->rank;
  size_ = state_->size;
  greatest_tag_ = state_->greatest_tag;
}

MpiEngine::~MpiEngine() {
  MutexLock lock(state_->mutex);
  state_->stopping = true;
  state_->asked.notify_all();
  const auto ended = [&]() TRIREME_REQUIRES(state_->mutex) { return state_->ended; };
  if (state_->broken) state_->changed.wait_for(state_->mutex, kEndLimit, ended);
  else state_->changed.wait(state_->mutex, ended);
}

void MpiEngine::start(const std::shared_ptr<MpiOperation>& operation) {
  const MutexLock lock(state_->mutex);
  state_->to_start.push_back(operation);
  state_->asked.notify_all();
}

bool MpiEngine::wait(MpiOperation& operation, milliseconds limit) {
  MutexLock lock(state_->mutex);
  if (!operation.changed.wait_for(state_->mutex, limit, [&] { return operation.done || operation.cancelled; }))
    throw std::runtime_error(
        fmt::format("no message arrived within {} s", std::chrono::duration<double>(limit).count()));
  if (!operation.done) {
    operation.cancelled = false;
    return false;
  }
  if (!operation.trouble.empty()) throw std::runtime_error(operation.trouble);
  return true;
}

void MpiEngine::cancel(MpiOperation& operation) {
  const MutexLock lock(state_->mutex);
  operation.cancelled = true;
  operation.changed.notify_all();
}

void MpiEngine::let_go(const std::shared_ptr<MpiOperation>& operation) {
  const MutexLock lock(state_->mutex);
  if (operation->done) return;
  state_->to_withdraw.push_back(operation);
  state_->asked.notify_all();
}

void MpiEngine::keep(std::shared_ptr<void> what) {
  const MutexLock lock(keeping_);
  kept_.push_back(std::move(what));
}

void MpiEngine::expect_no_end() {
  const MutexLock lock(state_->mutex);
  state_->broken = true;
}

}  // namespace trireme
