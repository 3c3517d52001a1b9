// Internals of simulate(): which instruction of which rank may begin.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "program/meetings.h"
#include "sim/clockwork.h"
#include "sim/simulate.h"

namespace trireme {

/// A worker does its list in order (`main`). Where links overlap computing, what it hands to others goes on beside that: gradients to
/// reduce and weights to gather in one lane, messages in another, each in the order in which they were handed over.
enum class Lane { main, exchange, mail };
constexpr int kLanes = 3;

class Engine {
 public:
  Engine(const Program& program, const Model& model, ProgramCosts& costs, const Links& links, const SimulationOptions& options);
  Simulation run();

 private:
  /// An instruction of a rank in a certain step.
  struct Task {
    int rank = -1;
    Lane lane = Lane::main;
    int index = -1, step = 0;
    double begin = 0;
    bool waited = false;  ///< for somebody, who had to wake it
  };
  struct LaneState {
    std::deque<Task> queue;  ///< handed over and not begun; of the main lane: empty
    bool busy = false;       ///< doing something or waiting in a meeting
    bool draining = false;   ///< somebody is at work on the queue
  };
  struct Rank {
    bool simulated = false;
    int step = 0, index = 0;           ///< next of the main lane
    LaneState lanes[kLanes];
    int exchanging = 0;                ///< handed over to the exchange lane and not ended
    std::map<BucketId, int> reducing;  ///< reductions among them
    bool held = false;                 ///< the main lane waits for the exchange lane
    bool was_held = false;
    bool waits_for_update = false;
    double free = 0;                   ///< since when the main lane is
    SimulatedWorker seconds;
  };
  struct Gathering {
    int micro_batch = -1, batch = -1;
    std::vector<Task> tasks;
  };
  struct Mailbox {
    int micro_batch = -1, batch = -1;
    std::map<int, int> posted, taken;  ///< how often, by rank
    std::vector<Task> waiting;
  };
  struct Update {
    int done = 0;
    std::vector<int> waiting;  ///< ranks
  };

  const Instruction& at(const Task& task) const { return program_.instructions(task.rank)[size_t(task.index)]; }
  int batch_of(const Task& task) const { return task.step - at(task).lag; }
  Lane lane_of(const Instruction& instruction) const;

  // the main lane
  void advance(int rank);
  bool skip_to_work(int rank);
  void next(int rank);
  bool is_held(Rank& rank, const Instruction& instruction) const;
  bool updates_there(const Task& task);
  void hand_over(Task task, Lane lane);

  // all lanes
  void drain(int rank, Lane lane);
  void enter(const Task& task);
  void join(const Task& task, const Role& role);
  void take(const Task& task, const Role& role);
  void post(const Task& task, const Role& role);
  bool has_mail(const Channel& channel, const Mailbox& box, int rank) const;
  void start(std::vector<Task> tasks);
  void end(const Task& task);
  void note_update(const Task& task);
  void account(const Task& task);
  void record(const Task& task, double free);
  template <class Meeting>
  Meeting& meeting_at(std::map<int, std::vector<Meeting>>& all, const Role& role, const Task& task);
  bool is_simulated(int rank) const { return ranks_[size_t(rank)].simulated; }
  bool is_steady(int step) const { return step > first_step_ || steps_ == first_step_ + 1; }
  void finish();

  const Program& program_;
  const Model& model_;
  ProgramCosts& costs_;
  const Links& links_;
  const SimulationOptions options_;
  const int batches_, steps_, first_step_;
  Meetings meetings_;
  Clockwork clock_;
  std::vector<Rank> ranks_;
  std::map<int, std::vector<Gathering>> gatherings_;    // by channel
  std::map<int, std::vector<Mailbox>> mailboxes_;       // by channel
  std::map<std::pair<BucketId, int>, Update> updates_;  // by bucket and batch
  std::vector<std::vector<Task>> running_;              // by id in the clockwork
  std::vector<int> free_ids_;
  std::vector<int> ready_;                              // ranks whose main lane may go on
  int advancing_ = -1;
  std::vector<double> step_ends_;                       // of the last rank, by step
  Simulation result_;
};

}  // namespace trireme
