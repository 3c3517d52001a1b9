// Processes that belong together: when one dies all end, and none outlives who started them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/line_reader.h"
#include "comm/flight_recorder.h"

namespace trireme {

/// A process to be started.
struct MemberStart {
  std::string name;  ///< "rank 3", "host b"
  std::vector<std::string>
      words;  ///< the program and its arguments; the program is looked for on PATH unless it has a slash
  std::vector<std::pair<std::string, std::string>> variables = {};  ///< set in its environment
  std::string host = {};                                            ///< that it, or the ranks that it starts, are on
  std::vector<int> cores = {};                                      ///< that it is bound to; empty: to none
  std::string prefix = {};                                          ///< of its lines on this process' standard error
  bool own_output = false;  ///< its standard output is this process', as it is: a progress bar can be drawn
  bool recorded =
      false;  ///< it has a flight recorder (comm/flight_recorder.h): when it freezes it is noticed, and where is known
  std::string input = {};  ///< its first line of standard input, with until_input_ends
  /// It is an agent: a launch on another machine, which through ssh no signal reaches. It is asked to end by the end of
  /// its standard input, and says on its standard error that it lives.
  bool until_input_ends = false;
};

/// Asks a rank to end as Ctrl-C does (SIGINT), so that another group goes on with the run.
inline constexpr int kMakeRoomSignal = SIGUSR1;

/// Ranks that ended without being asked to and without saying why: killed, or with their machine.
struct LostRanks {
  std::string name;  ///< "rank 2", "host b"
  std::string how;   ///< "was ended by signal 9 (Killed)"
  std::string host;  ///< MemberStart::host
  int count = 1;     ///< 0: all of that host
};

/// An agent's exit code, of a launch on another machine that lost n of its ranks: kLostRanks + n.
inline constexpr int kLostRanks = 128 + 64;
/// ssh's own: the other machine cannot be reached any more.
inline constexpr int kHostLost = 255;

/// How the group ended.
struct GroupEnd {
  int exit_code = 0;    ///< 0: all members ended with 0
  std::string culprit;  ///< "rank 2 was ended by signal 9 (Killed) in step 3, forward fc1; its last line: ..."; empty:
                        ///< all ended well, or who failed has said so itself
  std::vector<LostRanks> lost = {};
  std::vector<std::string> operations = {};  ///< the last ones of a culprit that was frozen, the oldest first
  std::string run_folder = {};               ///< where the first member could not say what it leaves behind; else empty
  double trained_seconds = 0;                ///< since the first step of any member was seen; 0: none was
  bool makes_room = false;                   ///< it was asked to end by make_room_after()
};

/// Belongs to one thread, which must outlive the members: the system ends them with it.
class RankGroup {
 public:
  RankGroup() = default;
  ~RankGroup();  ///< kills who is left
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Errors (run): the system refuses.
  void start(const MemberStart& member);

  /// How long members have to end once they are asked to by an interrupt; 6 s unless set.
  void allow_seconds_after_interrupt(double seconds) { seconds_to_finish_ = seconds; }

  /// The group is asked to end for another one, between two steps, once it has trained for so long.
  void make_room_after(double seconds_of_training) { room_after_ = seconds_of_training; }

  /// On another machine than the launch that speaks for all: the standard input's end is that launch's or its wish that
  /// the group ends, and it is told on the standard error that this process lives, and whether its ranks train.
  void be_agent() { is_agent_ = true; }

  /// Passes lines on until all members have ended. A few seconds after one failed or froze (kSilenceSeconds without a
  /// heartbeat), `interrupted` became true or an agent's standard input ended, those that are left are made to: all are
  /// gone within 10 s, but for a rank 0 that writes the last step down (train/process_rank.h). One that is frozen is
  /// killed once the others have ended.
  GroupEnd wait(const std::atomic<bool>& interrupted);

 private:
  struct Member {
    MemberStart start;
    pid_t pid = 0;   ///< 0: it has ended
    int input = -1;  ///< writing end of its standard input, where that ends it
    std::unique_ptr<LineReader> lines;
    std::string last_line;
    int exit_code = 0, signal = 0;
    bool asked = false;  ///< by this process to end
    std::unique_ptr<FlightRecorder> recorder = {};
    SilenceMeter silence = {};
    uint64_t signs_of_life = 0;  ///< of an agent
    bool trains = false;         ///< has begun a step, or one of an agent's ranks has
    std::string frozen = {};     ///< what is known of how; empty: it is not, as far as is known
  };

  bool read_lines();
  void take_line(Member& member, const std::string& line);
  void read_input();
  bool reap();
  void look_for_training(double now);
  void say_that_it_lives(double now);
  bool look_for_frozen(bool suspicious);
  bool saves_last_step() const;
  void kill_frozen();
  std::string how_ended(const Member& member) const;
  void ask_to_end(int signal);
  void signal_all(int signal);
  static constexpr double kSecondsToFinish = 6;  // a step, and saving the weights
  const Member* culprit() const;
  std::vector<LostRanks> lost() const;
  GroupEnd end() const;

  std::vector<std::unique_ptr<Member>> members_;
  std::vector<const Member*> failed_;  ///< in the order of their ends
  bool is_agent_ = false, input_ended_ = false;
  bool told_to_make_room_ = false;  ///< an agent, by the launch that speaks for all
  bool makes_room_ = false;
  std::optional<double> room_after_;
  double training_since_ = 0;  ///< on the steady clock; 0: no member trains yet
  double said_at_ = 0;         ///< an agent, that it lives
  double seconds_to_finish_ = kSecondsToFinish;
};

}  // namespace trireme
