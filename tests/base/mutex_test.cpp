#include "base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace trireme {
namespace {

using namespace std::chrono_literals;

/// True if another thread could lock the mutex.
bool is_free(Mutex& mutex) {
  bool free = false;
  std::thread([&] {
    if (!mutex.try_lock()) return;
    free = true;
    mutex.unlock();
  }).join();
  return free;
}

TEST(MutexLock, HoldsWhileItLives) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexLock, UnlocksOnceWhereItWasUnlockedBefore) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexUnlock, LocksAgainAlsoAfterAnException) {
  Mutex mutex;
  const MutexLock lock(mutex);
  try {
    const MutexUnlock unlock(mutex);
    EXPECT_TRUE(is_free(mutex));
    throw std::runtime_error("");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(is_free(mutex));
}

TEST(ConditionVariable, WaitsUntilTheConditionHolds) {
  Mutex mutex;
  ConditionVariable changed;
  int value = 0;
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) {
      const MutexLock lock(mutex);
      ++value;
      changed.notify_all();
    }
  });
  {
    const MutexLock lock(mutex);
    changed.wait(mutex, [&] { return value == 3; });
    EXPECT_EQ(value, 3);
    EXPECT_FALSE(is_free(mutex));
  }
  other.join();
}

TEST(ConditionVariable, SaysWhetherTheConditionHeldInTime) {
  Mutex mutex;
  ConditionVariable changed;
  const MutexLock lock(mutex);
  EXPECT_TRUE(changed.wait_for(mutex, 1ms, [] { return true; }));
  EXPECT_FALSE(changed.wait_for(mutex, 1ms, [] { return false; }));
  EXPECT_EQ(changed.wait_until(mutex, std::chrono::steady_clock::now() + 1ms), std::cv_status::timeout);
  EXPECT_FALSE(is_free(mutex));
}

TEST(ConditionVariable, LeavesTheMutexHeldWhereTheConditionThrows) {
  Mutex mutex;
  ConditionVariable changed;
  {
    const MutexLock lock(mutex);
    EXPECT_THROW(changed.wait(mutex, []() -> bool { throw std::runtime_error(""); }), std::runtime_error);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

}  // namespace
}  // namespace trireme
