#include "cli/rank_group.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "base/cores.h"
#include "base/seconds.h"
#include "cli/forked_program.h"
#include "train/process_rank.h"
#include "trireme/error.h"
#include "trireme/program.h"

namespace trireme {
namespace {

constexpr int kMemberPollMilliseconds = 50;
constexpr double kSecondsToNotice = 5;  // after one member failed: time for the others to detect and report it
constexpr double kSecondsToEnd = 3;     // after SIGTERM
// Seconds without a heartbeat after which a member is suspicious: other members may have missed it before this process
// did.
constexpr double kSuspiciousSeconds = 2;
// Seconds without a report after which an agent, which reports through ssh, counts as frozen; if suspicious:
// kSilenceSeconds.
constexpr double kAgentSilenceSeconds = 10;
constexpr double kAgentReportsEvery = 1;  // seconds
constexpr int kNotStarted = 127;          // the exit code that shells use for it
// Messages between an agent and the launch that started it; both run the same program.
constexpr const char* kLives = "\x06trireme: lives";
constexpr const char* kTrains = "\x06trireme: trains";
constexpr const char* kSaves = "\x06trireme: saves";                   // it trains no more: a rank writes the last step
constexpr const char* kInterruptedThere = "\x06trireme: interrupted";  // its first rank to end got a signal to end
constexpr char kMakeRoom = 'r';  // written to an agent's standard input before the input ends

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Returns this process' environment with the member's variables.
std::vector<std::string> environment_of(const MemberStart& member) {
  std::vector<std::string> lines;
  for (char** entry = ::environ; *entry; ++entry) {
    const std::string line = *entry, name = line.substr(0, line.find('='));
    if (std::none_of(member.variables.begin(), member.variables.end(), [&](const auto& v) { return v.first == name; }))
      lines.push_back(line);
  }
  for (const auto& [name, value] : member.variables) lines.push_back(name + "=" + value);
  return lines;
}

/// True if a process was stopped by SIGSTOP or by a terminal.
bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // the name of a program may contain any character
  return name_end != text.npos && text.substr(name_end).starts_with(") T");
}

std::string described(int exit_code, int signal) {
  return signal != 0 ? fmt::format("was ended by signal {} ({})", signal, ::strsignal(signal))
                     : fmt::format("ended with exit code {}", exit_code);
}

}  // namespace

RankGroup::~RankGroup() {
  signal_all(SIGKILL);
  for (const auto& member : members_) {
    if (member->input >= 0) ::close(member->input);
    if (member->pid > 0) ::waitpid(member->pid, nullptr, 0);
  }
}

void RankGroup::start(const MemberStart& start) {
  auto member = std::make_unique<Member>();
  member->start = start;
  const auto output = make_pipe("launch");
  std::array<int, 2> input{-1, -1};
  if (start.until_input_ends) input = make_pipe("launch");
  if (start.recorded) {
    member->recorder = std::make_unique<FlightRecorder>();
    member->start.variables.emplace_back(kRecorderVariable, std::to_string(member->recorder->file()));
  }
  std::vector<std::string> words = start.words, variables = environment_of(member->start);
  const std::vector<char*> argv = pointers_to(words), envp = pointers_to(variables);
  const bool in_fork = start.rank && has_one_thread();
  flush_output();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0)
    fail_run({start.name, "cannot be started", std::strerror(errno), "close other programs and try again"});
  if (child == 0) {  // only async-signal-safe calls from here on, except in a fork without other threads
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotStarted);
    ::setpgid(0, 0);  // Ctrl-C in a terminal goes to the parent, which forwards it once
    const int in = start.until_input_ends ? input[0] : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(in, STDIN_FILENO);
    if (!start.own_output) ::dup2(output[1], STDOUT_FILENO);
    ::dup2(output[1], STDERR_FILENO);
    if (!start.cores.empty()) bind_to_cores(start.cores);
    if (member->recorder) ::fcntl(member->recorder->file(), F_SETFD, 0);  // the executed program inherits it
    if (in_fork) {
      ::prctl(PR_SET_NAME, fmt::format("trireme-{}", *start.rank).c_str());
      become_new_process(variables);
      // OpenMP counted the launcher's cores when it was loaded.
      if (!start.cores.empty()) at::set_num_threads(int(start.cores.size()));
      run_and_exit(std::move(words), run_program);
    }
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(kNotStarted);
  }
  ::close(output[1]);
  if (input[0] >= 0) ::close(input[0]);
  member->pid = child;
  member->input = input[1];
  if (!start.input.empty()) {
    const std::string line = start.input + "\n";  // fits into the pipe, so no reader is needed yet
    const bool sent = ::write(input[1], line.data(), line.size()) == ssize_t(line.size());
    if (!sent && errno != EPIPE)  // EPIPE: it has ended already, and its exit code and output say why
      fail_run({start.name, "cannot receive its first line", std::strerror(errno), ""});
  }
  member->lines = std::make_unique<LineReader>(output[0]);
  members_.push_back(std::move(member));
}

/// Waits a short time for lines. Returns false if no more will come.
bool RankGroup::read_lines() {
  std::vector<pollfd> fds;
  std::vector<Member*> readers;
  for (const auto& member : members_)
    if (member->lines) {
      fds.push_back({member->lines->fd(), POLLIN, 0});
      readers.push_back(member.get());
    }
  const bool any = !fds.empty();
  if (is_agent_ && !input_ended_) fds.push_back({STDIN_FILENO, POLLIN, 0});
  ::poll(fds.data(), fds.size(), kMemberPollMilliseconds);
  for (size_t i = 0; i < readers.size(); ++i) {
    if (!fds[i].revents) continue;
    Member& member = *readers[i];
    const bool open = member.lines->read([&](const std::string& line) { take_line(member, line); });
    if (!open) member.lines.reset();
  }
  if (fds.size() > readers.size() && fds.back().revents) read_input();
  return any;
}

void RankGroup::take_line(Member& member, const std::string& line) {
  if (member.start.until_input_ends && (line == kLives || line == kTrains || line == kSaves)) {
    ++member.signs_of_life;
    member.trains = line != kLives;
    member.saves = line == kSaves;
    return;
  }
  if (member.start.until_input_ends && line == kInterruptedThere) {
    member.interrupted = true;
    return;
  }
  if (!line.empty()) member.last_line = line;
  std::cerr << member.start.prefix << line << "\n" << std::flush;
}

/// For an agent: reads its standard input.
void RankGroup::read_input() {
  std::array<char, 256> bytes;
  const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count < 0 && errno == EINTR) return;
  input_ended_ = count <= 0;
  room_requested_ |= count > 0 && std::find(bytes.begin(), bytes.begin() + count, kMakeRoom) != bytes.begin() + count;
}

/// Records the time at which the group begins to train.
void RankGroup::look_for_training(double now) {
  if (training_since_ > 0) return;
  for (const auto& member : members_) {
    if (member->recorder) member->trains = member->recorder->place().step > 0;
    if (member->trains) training_since_ = now;
  }
}

/// For an agent: reports that it is alive, and what its ranks do.
void RankGroup::say_that_it_lives(double now) {
  if (!is_agent_ || now - reported_at_ < kAgentReportsEvery) return;
  reported_at_ = now;
  const char* state = training_since_ > 0 ? kTrains : kLives;
  std::cerr << (saves_last_step() ? kSaves : state) << "\n" << std::flush;
}

/// Records the members that have ended. Returns true while any member runs.
bool RankGroup::reap() {
  bool running = false;
  for (const auto& member : members_) {
    if (member->pid == 0) continue;
    int status = 0;
    if (::waitpid(member->pid, &status, WNOHANG) != member->pid) {
      running = true;
      continue;
    }
    member->pid = 0;
    member->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    member->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (member->exit_code != 0 || member->signal != 0) failed_.push_back(member.get());
  }
  return running;
}

/// Returns true if any running member is frozen. `suspicious`: a member has just failed, perhaps because it detected a
/// silent member before this process did.
bool RankGroup::look_for_frozen(bool suspicious) {
  const double now = steady_seconds();
  bool any = false;
  for (const auto& member : members_) {
    const bool is_agent = member->start.until_input_ends;
    if ((!member->recorder && !is_agent) || member->pid == 0) continue;
    member->silence.look(is_agent ? member->signs_of_life : member->recorder->heartbeats(), now);
    const double limit = is_agent     ? (suspicious ? kSilenceSeconds : kAgentSilenceSeconds)
                         : suspicious ? kSuspiciousSeconds
                                      : kSilenceSeconds;
    if (member->frozen.empty() && member->silence.seconds() > limit) {
      const char* why = is_agent                  ? ", its agent there is frozen or the network in between is cut,"
                        : is_stopped(member->pid) ? ", stopped by a signal,"
                                                  : "";
      member->end_requested = false;  // a frozen member does not obey the request
      member->frozen = fmt::format("has shown no sign of life for {:.0f} s{}", member->silence.seconds(), why);
    }
    any |= !member->frozen.empty();
  }
  return any;
}

/// A member that saves the last step, or whose rank does on another machine, gets more time.
bool RankGroup::saves_last_step() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    const bool saves = member->saves || (member->recorder && member->recorder->read().long_work == kSavingLastStep);
    return member->pid != 0 && member->frozen.empty() && saves;
  });
}

/// Frozen members count as ended by a signal from elsewhere.
void RankGroup::kill_frozen() {
  for (const auto& member : members_)
    if (member->pid != 0 && !member->frozen.empty()) ::kill(member->pid, SIGKILL);
}

/// Sends `signal` to the members that are not ended by their standard input.
void RankGroup::request_end(int signal) {
  for (const auto& member : members_) {
    if (member->pid == 0) continue;
    member->end_requested |= member->frozen.empty();
    if (member->input >= 0) {
      if (signal == kMakeRoomSignal) {
        // An agent that has ended does not read it.
        [[maybe_unused]] const ssize_t written = ::write(member->input, &kMakeRoom, 1);
      }
      ::close(member->input);
      member->input = -1;
    } else {
      ::kill(member->pid, signal);
    }
  }
}

void RankGroup::signal_all(int signal) {
  for (const auto& member : members_) {
    if (member->pid == 0) continue;
    member->end_requested |= member->frozen.empty();
    ::kill(member->pid, signal);
  }
}

GroupEnd RankGroup::wait(const std::atomic<bool>& interrupted) {
  double ending_since = 0, patience = 0;
  bool end_requested = false, terminated = false, killed = false;
  while (true) {
    const bool lines = read_lines(), running = reap();
    const double now = steady_seconds();
    look_for_training(now);
    say_that_it_lives(now);
    // A grandchild may keep a pipe open.
    if (!running && (!lines || (ending_since > 0 && now - ending_since > patience + kSecondsToEnd))) break;
    if (!running && ending_since == 0) ending_since = now;
    const bool any_frozen = look_for_frozen(!failed_.empty() && ending_since == 0);
    if ((!failed_.empty() || any_frozen) && ending_since == 0) {
      ending_since = now;
      patience = kSecondsToNotice;
    }
    const bool room_is_due =
        room_after_ && training_since_ > 0 && now - training_since_ >= *room_after_ && ending_since == 0;
    if ((interrupted || input_ended_ || room_is_due) && !end_requested) {
      end_requested = true;
      ending_since = now;
      patience = seconds_to_finish_;
      makes_room_ = !interrupted && (room_is_due || room_requested_);
      request_end(makes_room_ ? kMakeRoomSignal : SIGINT);
    }
    if (ending_since == 0) continue;
    const bool all_others_ended =
        std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m->pid == 0 || !m->frozen.empty(); });
    if (!end_requested && saves_last_step()) ending_since = std::max(ending_since, now - patience);
    if (any_frozen && (all_others_ended || now - ending_since > patience)) kill_frozen();
    if (!terminated && now - ending_since > patience) {
      terminated = true;
      if (end_requested) signal_all(SIGTERM);
      else request_end(SIGTERM);
    }
    if (!killed && now - ending_since > patience + kSecondsToEnd) {
      killed = true;
      signal_all(SIGKILL);
    }
  }
  return end();
}

/// Returns the member whose end was the cause: a frozen one, otherwise one that a signal from elsewhere ended,
/// otherwise the first that failed. A survivor may be ended by SIGABRT: gloo's own thread calls abort() when a
/// connection breaks.
const RankGroup::Member* RankGroup::culprit() const {
  constexpr bool (*kCauses[])(const Member&) = {
      [](const Member& m) { return !m.frozen.empty() && m.signal == SIGKILL; },
      [](const Member& m) { return m.signal != 0 && m.signal != SIGABRT; },
      [](const Member& m) { return m.signal != 0; },
      [](const Member& m) { return !m.last_line.empty(); },
  };
  for (const auto is_cause : kCauses) {
    const auto found = std::find_if(failed_.begin(), failed_.end(),
                                    [&](const Member* m) { return !m->end_requested && is_cause(*m); });
    if (found != failed_.end()) return *found;
  }
  return failed_.empty() ? nullptr : failed_.front();
}

/// A survivor may also be ended by gloo's own thread, which calls abort() when a connection breaks; such a member can
/// work again and is not lost.
std::vector<LostRanks> RankGroup::lost() const {
  std::vector<LostRanks> lost;
  const bool any_by_signal = std::any_of(failed_.begin(), failed_.end(), [](const Member* m) {
    return m->signal != 0 && m->signal != SIGABRT && !m->end_requested;
  });
  for (const Member* member : failed_) {
    const MemberStart& start = member->start;
    if (member->end_requested) continue;
    const std::string how = how_ended(*member);
    const bool is_agent = start.until_input_ends;
    if (is_agent && (member->signal != 0 || member->exit_code == kHostLost))
      lost.push_back({start.name, how, start.host, 0});
    else if (is_agent && member->exit_code > kLostRanks)
      lost.push_back({start.name, fmt::format("lost {} of its ranks", member->exit_code - kLostRanks), start.host,
                      member->exit_code - kLostRanks});
    else if (!is_agent && member->signal != 0 && (member->signal != SIGABRT || !any_by_signal))
      lost.push_back({start.name, how, start.host, 1});
  }
  return lost;
}

std::string RankGroup::how_ended(const Member& member) const {
  const std::string where = member.recorder && member.signal != 0 ? where_of(standing(member.recorder->read())) : "";
  if (!member.frozen.empty() && member.signal == SIGKILL)
    return member.frozen + (member.recorder ? " and was killed; it was " + where : " and was given up");
  const bool not_found = member.start.until_input_ends && member.exit_code == kNotStarted;
  return described(member.exit_code, member.signal) + (where.empty() ? "" : " " + where) +
         (not_found ? fmt::format(": \"{}\" is not a program on this machine, or {} is not one on that machine",
                                  member.start.words.front(), std::filesystem::read_symlink("/proc/self/exe").string())
                    : "");
}

GroupEnd RankGroup::end() const {
  GroupEnd end;
  end.trained_seconds = training_since_ > 0 ? steady_seconds() - training_since_ : 0;
  end.makes_room = makes_room_;
  const Member* cause = culprit();
  if (!cause) return end;
  // The first member's output is shown to the user, so it has reported the error itself, unless it never began.
  const bool is_agent = cause->start.until_input_ends;
  const bool not_begun =
      cause->exit_code == kNotStarted || (is_agent && (cause->exit_code == kHostLost || cause->last_line.empty()));
  const bool has_spoken = cause == members_.front().get() && cause->signal == 0 && !not_begun;
  end.exit_code = cause->signal == 0 ? cause->exit_code : 1;
  end.lost = lost();
  const Member& first = *members_.front();
  if (first.recorder) (first.signal != 0 ? end.run_folder : end.written_folder) = first.recorder->read().run_folder;
  // Rank 0 reports that the run was interrupted, by which rank, and how to resume it.
  const bool interrupted =
      cause->signal == 0 && (cause->interrupted || (cause->recorder && cause->recorder->read().interrupted));
  if (interrupted && is_agent_) std::cerr << kInterruptedThere << "\n" << std::flush;
  if (has_spoken || interrupted || cause->end_requested) return end;
  end.culprit = fmt::format("{} {}", cause->start.name, how_ended(*cause));
  end.culprit_rank = cause->start.rank;
  if (cause->recorder && !cause->frozen.empty()) end.operations = cause->recorder->read().last;
  if (!cause->last_line.empty()) end.culprit += "; its last line: " + cause->last_line;
  return end;
}

}  // namespace trireme
