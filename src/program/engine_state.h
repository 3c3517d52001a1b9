// Internal to execute(): decides which instruction of which rank may start.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "program/execution.h"
#include "program/shared_resources.h"

namespace trireme {

class Engine {
 public:
  Engine(const Program& program, EngineCosts& costs, const EngineOptions& options);
  EngineEnd run();

 private:
  /// Ranks that wait for each other to start together.
  struct Gathering {
    int micro_batch = -1, batch = -1;
    std::vector<Execution> members;
    void clear() { members.clear(); }
  };

  /// Posts of the members that not all receivers have taken. A rank may post and take several times, each time in the
  /// next round.
  struct Mailbox {
    int micro_batch = -1, batch = -1;
    std::vector<int> posted, taken;  // count by member, by receiver
    std::vector<int> rounds;         // by round: number of posts
    int posts = 0, takes = 0;        // sums over all rounds
    std::vector<Execution> waiting;
    void clear() {
      posted.clear();
      taken.clear();
      rounds.clear();
      waiting.clear();
      posts = takes = 0;
    }
  };

  /// The updates of a bucket that holders have made (shared replicas).
  struct Updates {
    struct Batch {
      int done = 0;
      std::vector<int> waiting;  // ranks
    };
    std::vector<Batch> batches;
    std::vector<int> done;  // by holder: updates so far
    int needed = 0;         // number of holders that are executed
  };

  /// The instructions that a rank has queued on one lane.
  struct LaneState {
    std::deque<Execution> queue;  // not started
    bool busy = false;            // an instruction runs or waits in a rendezvous
    bool draining = false;        // drain() is processing the queue
  };

  struct Beside {
    LaneState exchange, mail;
    int exchanging = 0;               // instructions on the exchange lane that have not ended
    int sums = 0;                     // gradient sums among them
    std::map<BucketId, int> summing;  // the same by bucket
  };

  /// The facts of an instruction that the engine needs to start it.
  struct ListEntry {
    int site = 0, micro_batch = -1, lag = 0;
    bool needs_updates = false, updates = false;
  };

  struct Rank {
    const ListEntry* entries = nullptr;  // by position in the list
    int size = 0;                        // length of the list
    int step = 0, index = 0;             // of the next instruction of the main lane
    bool executed = false;
    bool busy = false;  // an instruction of the main lane runs or waits in a rendezvous
    bool held = false;  // waits for the exchange lane
    bool was_held = false;
    bool waits_for_update = false;
    double free = 0;                 // time since which the main lane is idle
    std::vector<Role> roles;         // by site
    std::unique_ptr<Beside> beside;  // only if links overlap computing
  };

  /// A channel with its open rendezvous. There are few at a time.
  struct ChannelState {
    int members = -1, receivers = 0;  // number that are executed; members < 0: not counted yet
    bool by_micro_batch = true, by_batch = true;
    std::vector<Gathering> gatherings;
    std::vector<Mailbox> mailboxes;
  };

  Rank& rank_of(const Execution& e) { return ranks_[size_t(e.rank)]; }
  const Rank& rank_of(const Execution& e) const { return ranks_[size_t(e.rank)]; }
  const Instruction& at(const Execution& e) const { return program_.instructions(e.rank)[size_t(e.index)]; }
  const ListEntry& entry_of(const Execution& e) const { return rank_of(e).entries[e.index]; }
  const Site& site_of(const Execution& e) const;
  int batch_of(const Execution& e) const { return e.step - entry_of(e).lag; }
  const Channel& channel_of(const Role& role) const { return program_.channels[size_t(role.channel)]; }
  LaneState& lane_of(const Execution& e) {
    return e.lane == Lane::mail ? rank_of(e).beside->mail : rank_of(e).beside->exchange;
  }
  int executed_of(const std::vector<int>& ranks) const;  ///< number of `ranks` that are executed
  ChannelState& state_of(const Role& role);
  const Role& role_at(const Execution& e);
  Lane lane_for(const Instruction& instruction) const;

  const ListEntry* entries_of(int list);

  // the main lane
  void advance(int rank);
  bool skip_to_work(Rank& rank);
  void next(Rank& rank);
  bool is_held(Rank& rank, const Instruction& instruction) const;
  bool updates_there(const Execution& e);
  void note_update(const Execution& e);
  void hand_over(Execution e, Lane lane);

  // all lanes
  void drain(const Execution& e);
  void enter(const Execution& e);
  void join(const Execution& e, const Role& role);
  void take(Execution e, const Role& role);
  void post(const Execution& e, const Role& role);
  void start(std::span<Execution> together);
  void end(const Execution& e);
  template <class Pending>
  Pending& pending_at(ChannelState& channel, std::vector<Pending>& under_way, std::vector<Pending>& spare,
                      const Execution& e);
  Mailbox& mailbox_of(const Role& role, const Execution& e);
  void forget_if_over(ChannelState& channel, Mailbox& box);

  // at the end
  std::vector<int> absent(const Execution& e);
  void find_leftovers();

  const Program& program_;
  const bool one_sum_at_a_time_;
  EngineCosts& costs_;
  const Overlap overlap_;
  const bool all_ranks_;
  const int batches_, steps_;
  SharedResources clock_;
  std::vector<std::vector<ListEntry>> entries_;  // by list; empty if no rank executes the list
  std::vector<Rank> ranks_;
  std::vector<ChannelState> channels_;
  std::vector<Gathering> spare_gatherings_;  // memory of finished ones, for reuse
  std::vector<Mailbox> spare_mailboxes_;
  std::vector<Updates> updates_;                 // by bucket
  std::vector<std::vector<Execution>> running_;  // by id in clock_
  std::vector<int> free_ids_;
  std::vector<int> ready_;  // ranks whose main lane may continue
  int advancing_ = -1;
  Demand demand_;
  EngineEnd end_;
};

}  // namespace trireme
