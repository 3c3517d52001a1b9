#include "sim/engine.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "runtime/event_kind.h"

namespace trireme {
namespace {

constexpr double kShownSeconds = 1e-9;      // shorter events are not part of a timeline
constexpr double kShownWaitSeconds = 5e-6;  // as in a run's

/// Members of a talking segment compute what is theirs; of a collective all do the same thing together.
bool computes(OpCode code) {
  return code == OpCode::load_batch || code == OpCode::forward || code == OpCode::recompute || code == OpCode::backward ||
         code == OpCode::backward_input || code == OpCode::backward_weight;
}

int lanes_index(Lane lane) { return int(lane); }

}  // namespace

Engine::Engine(const Program& program, const Model& model, ProgramCosts& costs, const Links& links, const SimulationOptions& options)
    : program_(program), model_(model), costs_(costs), links_(links), options_(options), batches_(options.steps + program.greatest_lag),
      steps_(batches_ + program.greatest_lag), first_step_(program.greatest_lag), meetings_(program, model), clock_(links.pools()),
      ranks_(program.list_of_rank.size()), step_ends_(size_t(steps_), 0) {
  result_.ranks = options.ranks;
  if (result_.ranks.empty()) {
    result_.ranks.resize(ranks_.size());
    std::iota(result_.ranks.begin(), result_.ranks.end(), 0);
  }
  for (int rank : result_.ranks) ranks_[size_t(rank)].simulated = true;
}

Simulation Engine::run() {
  ready_ = result_.ranks;
  std::reverse(ready_.begin(), ready_.end());
  while (true) {
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    const int id = clock_.next();
    if (id < 0) break;
    const std::vector<Task> tasks = std::move(running_[size_t(id)]);
    free_ids_.push_back(id);
    for (const Task& task : tasks) end(task);
  }
  for (int rank : result_.ranks)
    check_internal(!skip_to_work(rank), "programs that have passed the checker end on a clock too");
  finish();
  return std::move(result_);
}

void Engine::finish() {
  // steps that only drain the pipeline are none
  const int last = batches_ - 1;
  const int between = last - first_step_;
  result_.step_seconds = between > 0 ? (step_ends_[size_t(last)] - step_ends_[size_t(first_step_)]) / between : step_ends_[size_t(last)];
  for (int rank : result_.ranks) {
    SimulatedWorker worker = ranks_[size_t(rank)].seconds;
    const double steps = std::max(1, between);
    result_.workers.push_back({worker.computing / steps, worker.exposed / steps, worker.waiting / steps, worker.bytes_sent / steps});
  }
  std::vector<Event>& events = result_.timeline.events;
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.begin < b.begin;
  });
  double begin = events.empty() ? 0 : events.front().begin;
  for (const Event& event : events) begin = std::min(begin, event.begin);
  for (Event& event : events) {
    event.begin -= begin;
    event.end -= begin;
  }
  result_.timeline.step = last;
  result_.timeline.workers = int(ranks_.size());
}

// -- the main lane

Lane Engine::lane_of(const Instruction& i) const {
  const Overlap overlap = links_.overlap();
  if (overlap == Overlap::nothing) return Lane::main;
  const bool reduces = i.code == OpCode::reduce_gradients && program_.private_replicas;
  if (overlap == Overlap::sums) return reduces && program_.optimizer_sharding == OptimizerSharding::none ? Lane::exchange : Lane::main;
  if (i.code == OpCode::send) return Lane::mail;
  return reduces || i.code == OpCode::prefetch_weights ? Lane::exchange : Lane::main;
}

void Engine::next(int rank) {
  Rank& r = ranks_[size_t(rank)];
  if (size_t(++r.index) < program_.instructions(rank).size()) return;
  step_ends_[size_t(r.step)] = std::max(step_ends_[size_t(r.step)], clock_.now());
  r.index = 0;
  ++r.step;
}

/// Whether there is an instruction left to execute.
bool Engine::skip_to_work(int rank) {
  Rank& r = ranks_[size_t(rank)];
  const std::vector<Instruction>& list = program_.instructions(rank);
  while (r.step < steps_ && !list.empty()) {
    const int batch = r.step - list[size_t(r.index)].lag;
    if (batch >= 0 && batch < batches_) return true;
    next(rank);
  }
  return false;
}

void Engine::advance(int rank) {
  Rank& r = ranks_[size_t(rank)];
  advancing_ = rank;
  LaneState& main = r.lanes[lanes_index(Lane::main)];
  while (!main.busy && !r.held && skip_to_work(rank)) {
    Task task{rank, Lane::main, r.index, r.step, 0, false};
    const Lane lane = lane_of(at(task));
    if (lane != Lane::main) {
      next(rank);
      hand_over(task, lane);
      continue;
    }
    if (is_held(r, at(task)) || !updates_there(task)) break;
    main.busy = true;
    task.waited = std::exchange(r.waits_for_update, false);
    enter(task);
  }
  advancing_ = -1;
}

void Engine::hand_over(Task task, Lane lane) {
  Rank& r = ranks_[size_t(task.rank)];
  task.lane = lane;
  if (lane == Lane::exchange) {
    ++r.exchanging;
    if (at(task).code == OpCode::reduce_gradients) ++r.reducing[at(task).index];
  }
  r.lanes[lanes_index(lane)].queue.push_back(task);
  drain(task.rank, lane);
}

/// The update of a bucket needs its gradient, the norm all of them.
bool Engine::is_held(Rank& rank, const Instruction& i) const {
  if (i.code == OpCode::clip_gradients) rank.held = rank.exchanging > 0;
  if (i.code == OpCode::optimizer_step) rank.held = rank.reducing[i.index] > 0;
  rank.was_held |= rank.held;
  return rank.held;
}

bool Engine::updates_there(const Task& task) {
  const int batch = batch_of(task);
  for (const NeededUpdate& need : updates_needed(program_, at(task))) {
    if (batch < need.before) continue;
    const std::vector<int>& holders = program_.buckets[size_t(need.bucket)].holders;
    const auto simulated = std::count_if(holders.begin(), holders.end(), [&](int h) { return is_simulated(h); });
    Update& update = updates_[{need.bucket, batch - need.before}];
    if (update.done >= simulated) continue;
    update.waiting.push_back(task.rank);
    ranks_[size_t(task.rank)].waits_for_update = true;
    return false;
  }
  return true;
}

// -- all lanes

void Engine::drain(int rank, Lane lane) {
  LaneState& state = ranks_[size_t(rank)].lanes[lanes_index(lane)];
  if (state.draining) return;
  state.draining = true;
  while (!state.busy && !state.queue.empty()) {
    const Task task = state.queue.front();
    state.queue.pop_front();
    state.busy = true;
    enter(task);
  }
  state.draining = false;
}

void Engine::enter(const Task& task) {
  const Role role = meetings_.role_of(task.rank, at(task));
  switch (role.part) {
    case Part::alone:
    case Part::post: return start({task});
    case Part::take: return take(task, role);
    case Part::join: return join(task, role);
  }
}

template <class Meeting>
Meeting& Engine::meeting_at(std::map<int, std::vector<Meeting>>& all, const Role& role, const Task& task) {
  const Channel& channel = meetings_.channel(role.channel);
  const int micro_batch = channel.by_micro_batch ? at(task).micro_batch : -1;
  const int batch = channel.by_batch ? batch_of(task) : -1;
  std::vector<Meeting>& under_way = all[role.channel];
  for (Meeting& meeting : under_way)
    if (meeting.micro_batch == micro_batch && meeting.batch == batch) return meeting;
  under_way.emplace_back();
  under_way.back().micro_batch = micro_batch;
  under_way.back().batch = batch;
  return under_way.back();
}

void Engine::join(const Task& task, const Role& role) {
  Gathering& gathering = meeting_at(gatherings_, role, task);
  gathering.tasks.push_back(task);
  const std::vector<int>& members = meetings_.channel(role.channel).members;
  const auto simulated = std::count_if(members.begin(), members.end(), [&](int m) { return is_simulated(m); });
  if (int64_t(gathering.tasks.size()) < simulated) return;
  std::vector<Task> tasks = std::move(gathering.tasks);
  std::vector<Gathering>& all = gatherings_[role.channel];
  all.erase(all.begin() + (&gathering - all.data()));
  start(std::move(tasks));
}

bool Engine::has_mail(const Channel& channel, const Mailbox& box, int rank) const {
  const auto count = [](const std::map<int, int>& times, int of) {
    const auto found = times.find(of);
    return found == times.end() ? 0 : found->second;
  };
  const int round = count(box.taken, rank);
  return std::all_of(channel.members.begin(), channel.members.end(),
                     [&](int m) { return !is_simulated(m) || count(box.posted, m) > round; });
}

void Engine::take(const Task& task, const Role& role) {
  Mailbox& box = meeting_at(mailboxes_, role, task);
  const Channel& channel = meetings_.channel(role.channel);
  check_internal(std::any_of(channel.members.begin(), channel.members.end(), [&](int m) { return is_simulated(m); }),
                 "a rank that stands for others takes from one that does");
  if (!has_mail(channel, box, task.rank)) {
    box.waiting.push_back(task);
    box.waiting.back().waited = true;
    return;
  }
  ++box.taken[task.rank];
  start({task});
}

void Engine::post(const Task& task, const Role& role) {
  const Channel& channel = meetings_.channel(role.channel);
  if (channel.receivers.empty()) return;
  Mailbox& box = meeting_at(mailboxes_, role, task);
  ++box.posted[task.rank];
  std::vector<Task> served;
  std::erase_if(box.waiting, [&](const Task& waiting) {
    if (!has_mail(channel, box, waiting.rank)) return false;
    ++box.taken[waiting.rank];
    served.push_back(waiting);
    return true;
  });
  for (const Task& other : served) start({other});
}

void Engine::start(std::vector<Task> tasks) {
  Demand demand;
  const OpCode code = at(tasks.front()).code;
  const bool waited = std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.waited; });
  for (Task& task : tasks) {
    task.begin = clock_.now();
    Demand own = costs_.of(task.rank, at(task)).demand;
    if (!computes(code)) {
      demand = std::move(own);
      for (Task& other : tasks) other.begin = clock_.now();
      break;
    }
    if (ranks_[size_t(task.rank)].exchanging > 0) own.fixed *= links_.compute_slowdown();
    demand.fixed = std::max(demand.fixed, own.fixed);
    demand.shares.insert(demand.shares.end(), own.shares.begin(), own.shares.end());
  }
  if (waited) demand.fixed += links_.hand_over();
  if (demand.is_nothing()) {
    for (const Task& task : tasks) end(task);
    return;
  }
  if (free_ids_.empty()) {
    free_ids_.push_back(int(running_.size()));
    running_.emplace_back();
  }
  const int id = free_ids_.back();
  free_ids_.pop_back();
  running_[size_t(id)] = std::move(tasks);
  clock_.begin(id, demand.fixed, demand.shares);
}

void Engine::end(const Task& task) {
  Rank& r = ranks_[size_t(task.rank)];
  ++result_.executed;
  account(task);
  r.lanes[lanes_index(task.lane)].busy = false;
  if (task.lane == Lane::main) {
    r.free = clock_.now();
    r.was_held = false;
    next(task.rank);
    if (task.rank != advancing_) ready_.push_back(task.rank);
  } else if (task.lane == Lane::exchange) {
    --r.exchanging;
    if (at(task).code == OpCode::reduce_gradients) --r.reducing[at(task).index];
    if (std::exchange(r.held, false)) ready_.push_back(task.rank);
  }
  if (at(task).code == OpCode::optimizer_step) note_update(task);
  const Role role = meetings_.role_of(task.rank, at(task));
  if (role.part == Part::post) post(task, role);
  if (task.lane != Lane::main) drain(task.rank, task.lane);
}

void Engine::note_update(const Task& task) {
  Update& update = updates_[{at(task).index, batch_of(task)}];
  ++update.done;
  for (int rank : std::exchange(update.waiting, {})) ready_.push_back(rank);
}

void Engine::account(const Task& task) {
  Rank& r = ranks_[size_t(task.rank)];
  if (options_.timeline && task.step == batches_ - 1) record(task, r.free);
  if (!is_steady(task.step) || task.step >= batches_) return;
  const OpCode code = at(task).code;
  const double seconds = clock_.now() - task.begin;
  const InstructionCost& cost = costs_.of(task.rank, at(task));
  r.seconds.bytes_sent += cost.bytes_sent;
  if (task.lane != Lane::main) return;
  const bool for_exchange = r.was_held || (links_.overlap() == Overlap::all && code == OpCode::gather_weights);
  (for_exchange ? r.seconds.exposed : r.seconds.waiting) += task.begin - r.free;
  if (code == OpCode::optimizer_step) {  // of weights that are divided the new ones are gathered
    const bool gathers = program_.private_replicas && cost.bytes_sent > 0;
    const double computing = gathers ? std::min(seconds, cost.computing) : seconds;
    r.seconds.computing += computing;
    r.seconds.exposed += seconds - computing;
    return;
  }
  (computes(code) ? r.seconds.computing : r.seconds.exposed) += seconds;
}

void Engine::record(const Task& task, double free) {
  const Instruction& i = at(task);
  const std::string name = program_.describe(i, model_);
  std::vector<Event>& events = result_.timeline.events;
  if (task.lane == Lane::main && task.begin - free > kShownWaitSeconds)
    events.push_back({task.rank, EventKind::wait, "wait: " + name, i.micro_batch, free, task.begin, 0});
  if (clock_.now() - task.begin < kShownSeconds) return;
  const auto bytes = int64_t(costs_.of(task.rank, i).bytes_sent);
  events.push_back({task.rank, event_kind(i.code), name, i.micro_batch, task.begin, clock_.now(), bytes});
}

Simulation simulate(const Program& program, const Model& model, ProgramCosts& costs, const Links& links,
                    const SimulationOptions& options) {
  return Engine(program, model, costs, links, options).run();
}

}  // namespace trireme
