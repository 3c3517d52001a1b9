#include "comm/gloo/polling_thread.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "base/cores.h"
#include "base/seconds.h"

namespace trireme {
namespace {

constexpr double kLookInterval = 0.5;  // seconds
constexpr double kMuch = 0.2;          // of the cores' time, for other programs

/// A refusal costs only speed.
void set_policy(pid_t thread, int policy) {
  const sched_param priority{};
  sched_setscheduler(thread, policy, &priority);
}

std::set<pid_t> batch_threads() {
  std::set<pid_t> threads;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    const pid_t thread = std::stoi(entry.path().filename());
    if (sched_getscheduler(thread) == SCHED_BATCH) threads.insert(thread);
  }
  return threads;
}

/// The seconds that all programs have used of these cores, ascending; interrupts are left out.
double busy_seconds(const std::vector<int>& cores) {
  std::ifstream file("/proc/stat");
  std::string line;
  double ticks = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    double user = 0, nice = 0, system = 0;
    if (!(words >> name >> user >> nice >> system) || !name.starts_with("cpu") || name.size() == 3) continue;
    if (std::binary_search(cores.begin(), cores.end(), std::stoi(name.substr(3)))) ticks += user + nice + system;
  }
  return ticks / double(sysconf(_SC_CLK_TCK));
}

}  // namespace

PollingThread::PollingThread() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  batch_threads_before_ = batch_threads();
  starting_ = true;
  set_policy(0, SCHED_BATCH);
}

void PollingThread::found() {
  if (!starting_) return;
  starting_ = false;
  set_policy(0, SCHED_OTHER);
  for (const pid_t thread : batch_threads())
    if (!batch_threads_before_.contains(thread)) thread_ = thread;
}

void PollingThread::look() {
  const double now = steady_seconds();
  if (thread_ == 0 || now - looked_at_ < kLookInterval) return;
  const std::vector<int> cores = usable_cores();
  const double busy = busy_seconds(cores), own = process_seconds();
  if (looked_at_ > 0) {
    const double others = ((busy - busy_) - (own - own_)) / (now - looked_at_);
    set_policy(thread_, others > kMuch * double(cores.size()) ? SCHED_OTHER : SCHED_BATCH);
  }
  looked_at_ = now;
  busy_ = busy;
  own_ = own;
}

}  // namespace trireme
