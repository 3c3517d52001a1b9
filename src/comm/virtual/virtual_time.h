// Backend `virtual`: real mathematics, modelled time. Workers are threads of one process that take turns in the order
// of their clocks (virtual_clock.h). Computing and transfers take only the seconds that a model assigns. So the actions
// of 64 workers, their order and their times are a function of their input.
//
// A world of this backend is a LocalWorld with waits and transfers on these clocks. A worker's computation between two
// calls happens at the time that its clock shows at the first of them. A worker declares the duration of a computation
// by advancing its clock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/local/local_group.h"
#include "comm/virtual/virtual_clock.h"

namespace trireme {

/// The connections that a transfer uses, by number: each is busy for the given seconds once it is free. The transfer
/// ends `latency` seconds after the last of them has finished.
struct ModelledTransfer {
  double latency = 0;
  std::vector<std::pair<int, double>> busy;
};

/// Predicts transfers over the connections (implemented in src/cost). Ranks are world ranks. Called by one thread at a
/// time.
class TransferTimes {
 public:
  virtual ~TransferTimes() = default;
  /// Returns the number of connections.
  virtual int connections() const = 0;
  virtual ModelledTransfer message(int from, int to, int64_t bytes) = 0;
  /// `bytes`: those of the whole tensor, that is, before a reduce_scatter and after an all_gather, all_reduce or
  /// broadcast. For an all_to_all: those that one rank holds.
  virtual ModelledTransfer collective(Collective collective, std::span<const int> ranks, int64_t bytes) = 0;
};

/// The clocks and connections of a world. Except for enter, leave and abort, only threads that have entered may call,
/// and only when they have the turn. All calls except add, advance and leave throw a run error after an abort. Must
/// outlive all threads that have entered.
class VirtualTime {
 public:
  /// `transfers` null: transfers take no time. `kind` is a rank's name in messages.
  VirtualTime(int ranks, std::unique_ptr<TransferTimes> transfers, std::string kind = "rank");

  /// Makes the calling thread run as this rank, or as a runner from add(). No runner runs before all ranks have
  /// entered. Also returns after an abort.
  void enter(int runner);
  void leave() noexcept;
  /// Makes the calling thread continue as this runner, which has entered. The thread that ran as it before must make no
  /// calls meanwhile.
  void go_on_as(int runner) const;
  /// Adds a runner with the caller's clock and returns its number, with which its thread must enter.
  int add() { return clock_.add(runner()); }

  double now() const { return clock_.time(runner()); }
  /// Moves the caller's clock to `time`, never backwards. Under Untimed::What::everything the clock is unchanged, but
  /// runners that were woken with an earlier clock run first.
  void advance_to(double time);

  /// Waits until `counter` reaches `target` (another runner moves it with advance()) or the caller's clock reaches
  /// `deadline`. `waits_for` as in VirtualClock::block. Returns the seconds waited.
  double wait_for(const std::atomic<int64_t>& counter, int64_t target, std::string waits_for = "the others",
                  double deadline = VirtualClock::kNever);
  void advance(std::atomic<int64_t>& counter, int64_t by);

  /// While it exists, transfers that the calling thread begins, or at which it arrives last, take no time. Under
  /// `everything` its waits take no time on its clock either: it continues at the time at which it began to wait. Does
  /// nothing in real time.
  class Untimed {
   public:
    enum class What { nothing, transfers, everything };
    explicit Untimed(What what);
    ~Untimed();
    Untimed(const Untimed&) = delete;
    Untimed& operator=(const Untimed&) = delete;

   private:
    const What before_;
  };

  /// Returns the end time of a transfer that begins now.
  double message(int from, int to, int64_t bytes);
  double collective(Collective collective, std::span<const int> ranks, int64_t bytes);

  void abort(const std::string& reason) { clock_.abort(reason); }

 private:
  struct Waiting {
    int runner;
    const std::atomic<int64_t>* counter;
    int64_t target;
    bool untimed;
  };
  int runner() const;
  double carry(const ModelledTransfer& transfer);

  VirtualClock clock_;
  const std::unique_ptr<TransferTimes> transfers_;
  std::vector<double> free_;  ///< by connection: the time from which it is free; may be in the future
  Mutex mutex_;               ///< needed because after an abort threads do not take turns
  std::vector<Waiting> waiting_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
