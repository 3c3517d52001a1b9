#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

// Locks whose use clang checks (scripts/lint.py thread-safety): a member names the mutex that guards it, a function the
// mutex that its caller holds. For other compilers the annotations are empty.
#if defined(__clang__)
#define TRIREME_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TRIREME_THREAD_ANNOTATION(x)
#endif

// On a member: only threads that hold the mutex read or write it.
#define TRIREME_GUARDED_BY(mutex) TRIREME_THREAD_ANNOTATION(guarded_by(mutex))
// On a function or a lambda, after its parameters. REQUIRES: the caller holds the mutex. EXCLUDES: the caller does not
// hold it. ACQUIRE, RELEASE: the caller holds it, or no longer holds it, when the call returns.
#define TRIREME_REQUIRES(...) TRIREME_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TRIREME_EXCLUDES(...) TRIREME_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define TRIREME_ACQUIRE(...) TRIREME_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRIREME_TRY_ACQUIRE(...) TRIREME_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define TRIREME_RELEASE(...) TRIREME_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// On a function that is correct in a way that the analysis cannot follow. A comment there says why.
#define TRIREME_NO_THREAD_SAFETY_ANALYSIS TRIREME_THREAD_ANNOTATION(no_thread_safety_analysis)
// On a class: it is a lock; it holds a lock during its lifetime.
#define TRIREME_CAPABILITY(name) TRIREME_THREAD_ANNOTATION(capability(name))
#define TRIREME_SCOPED_CAPABILITY TRIREME_THREAD_ANNOTATION(scoped_lockable)

namespace trireme {

/// As std::mutex.
class TRIREME_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() TRIREME_ACQUIRE() { mutex_.lock(); }
  void unlock() TRIREME_RELEASE() { mutex_.unlock(); }
  bool try_lock() TRIREME_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

/// Holds a mutex during its lifetime, except between unlock() and lock().
class TRIREME_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TRIREME_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() TRIREME_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() TRIREME_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() TRIREME_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// Unlocks a mutex that the caller holds, and locks it again in the destructor.
class TRIREME_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) TRIREME_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() TRIREME_RELEASE() { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

/// As std::condition_variable. The caller of a wait holds the mutex, before and after. A condition that reads what the
/// mutex guards says so: `changed_.wait(mutex_, [this]() TRIREME_REQUIRES(mutex_) { return stopped_; })`.
class ConditionVariable {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  void wait(Mutex& mutex) TRIREME_REQUIRES(mutex) {
    Borrowed lock(mutex);
    condition_.wait(lock.lock);
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> time) TRIREME_REQUIRES(mutex) {
    Borrowed lock(mutex);
    return condition_.wait_until(lock.lock, time);
  }
  template <class Rep, class Period>
  std::cv_status wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> limit) TRIREME_REQUIRES(mutex) {
    Borrowed lock(mutex);
    return condition_.wait_for(lock.lock, limit);
  }

  // The analysis cannot tell that the condition's mutex is this one.
  template <class Condition>
  void wait(Mutex& mutex, Condition condition) TRIREME_REQUIRES(mutex) TRIREME_NO_THREAD_SAFETY_ANALYSIS {
    Borrowed lock(mutex);
    condition_.wait(lock.lock, std::move(condition));
  }
  /// Returns whether the condition is true.
  template <class Rep, class Period, class Condition>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> limit, Condition condition)
      TRIREME_REQUIRES(mutex) TRIREME_NO_THREAD_SAFETY_ANALYSIS {
    Borrowed lock(mutex);
    return condition_.wait_for(lock.lock, limit, std::move(condition));
  }

 private:
  /// The mutex as std::condition_variable takes it. Whatever happens in between, the caller holds it afterwards.
  struct Borrowed {
    explicit Borrowed(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Borrowed() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace trireme
