// Python's pickle streams, protocols 2 to 5, read without running anything: what Python would call or construct becomes
// an inert value that says what would be called with what. Opcodes: Lib/pickletools.py of Python, "A pickle verifier".
//
// libtorch's own Unpickler is no help here: 1.13's reads an OrderedDict, which every state dict is, as None, knows no
// SETITEM, and follows sizes that a damaged file claims out of the storage's memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

/// A value of a pickle. Values refer to each other within their Pickle, which owns them all: cycles and any depth of
/// nesting are possible, so a reader that follows references must bound its own depth.
struct PickleValue {
  enum class Kind {
    none,
    boolean,     ///< integer
    integer,     ///< integer
    real,        ///< real
    text,        ///< text: a str in UTF-8, or bytes
    sequence,    ///< items: tuple, list, set
    dict,        ///< entries; OrderedDict too
    global,      ///< text: "torch._utils._rebuild_tensor_v2"
    object,      ///< of a call: callee, arguments, and what was done to its result: items, entries, state
    persistent,  ///< arguments: the id of something that is stored elsewhere in the file
    other,       ///< integers of more than 64 bits
  };

  Kind kind = Kind::none;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<const PickleValue*> items;
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries;
  const PickleValue* callee = nullptr;
  const PickleValue* arguments = nullptr;
  const PickleValue* state = nullptr;

  bool is(Kind other) const { return kind == other; }
  /// The value of a dict's or state's last entry under a text key; nullptr without one.
  const PickleValue* find(std::string_view key) const;
  /// An object's class or function, "" where it is not named.
  std::string_view callee_name() const;
};

class Pickle {
 public:
  /// Reads `bytes`, all of a stream. Takes memory in proportion to them. User errors with the byte name `where`.
  Pickle(std::string_view bytes, std::string where);

  const PickleValue& root() const { return *root_; }

 private:
  std::deque<PickleValue> values_;  // their addresses stay
  const PickleValue* root_ = nullptr;
};

}  // namespace trireme
