// What a user's program adds to a registry: register_schedule() and its like (include/trireme/).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/error.h"

namespace trireme {

/// Kinds that wait to become part of a registry. A registry reads them once, when it is first asked for its list; an
/// addition after that is an error, because lists made from the registry would lack it. Not thread-safe: additions are
/// made by static initialisation or at the start of main.
template <class Kind>
class Additions {
 public:
  /// `what` names the registry in errors: "schedule".
  explicit Additions(std::string_view what) : what_(what) {}

  /// Adds the kind. Returns true, so that the call can initialise a static object. Errors (user): the registry has
  /// already been read.
  bool add(Kind kind) {
    if (taken_)
      fail_user({std::string(what_), kind_name(kind), "is registered after the list of them was read",
                 "register it by static initialisation or at the start of main"});
    kinds_.push_back(std::move(kind));
    return true;
  }

  /// Appends the added kinds to `all`, which holds the built-in ones; `make` converts each kind to an entry of the
  /// list. Errors (user): the list has an entry of the same name.
  template <class Listed, class Make = std::identity>
  void take(std::vector<Listed>& all, Make make = {}) {
    taken_ = true;
    for (Kind& kind : kinds_) {
      for (const Listed& other : all)
        if (kind_name(other) == kind_name(kind))
          fail_user({std::string(what_), kind_name(kind), "is registered twice", "give yours another name"});
      all.push_back(make(std::move(kind)));
    }
    kinds_.clear();
  }

 private:
  static std::string kind_name(const auto& kind) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(kind)>>) return std::string(kind->name);
    else return std::string(kind.name);
  }

  const std::string_view what_;
  std::vector<Kind> kinds_;
  bool taken_ = false;
};

}  // namespace trireme
