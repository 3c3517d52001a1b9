// Reads Python's pickle streams, protocols 2 to 5, without running anything: a call or construction in Python becomes
// an inert value that states the callee and the arguments. Opcodes: Lib/pickletools.py of Python, "A pickle verifier".
//
// libtorch's own Unpickler cannot be used: version 1.13 reads an OrderedDict, which every state dict is, as None, does
// not support SETITEM, and trusts sizes in a damaged file, which makes it read beyond the storage's memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

/// A value of a pickle. Values refer to each other within their Pickle, which owns all of them. Cycles and any depth of
/// nesting are possible, so a reader that follows references must bound its own depth.
struct PickleValue {
  enum class Kind {
    none,
    boolean,     ///< integer
    integer,     ///< integer
    real,        ///< real
    text,        ///< text: a str in UTF-8, or bytes
    sequence,    ///< items: tuple, list, set
    dict,        ///< entries; also an OrderedDict
    global,      ///< text: "torch._utils._rebuild_tensor_v2"
    object,      ///< result of a call: callee, arguments, and later changes to the result: items, entries, state
    persistent,  ///< arguments: the id of an object that is stored elsewhere in the file
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
  /// The value of the last entry under a text key of a dict or state; nullptr if there is none.
  const PickleValue* find(std::string_view key) const;
  /// The name of an object's class or function; "" if it has none.
  std::string_view callee_name() const;
};

class Pickle {
 public:
  /// Reads `bytes`, the whole stream. Memory use is proportional to their number. Throws user errors that name the byte
  /// and `where`.
  Pickle(std::string_view bytes, std::string where);

  const PickleValue& root() const { return *root_; }

 private:
  std::deque<PickleValue> values_;  // a deque, because its elements keep their addresses
  const PickleValue* root_ = nullptr;
};

}  // namespace trireme
