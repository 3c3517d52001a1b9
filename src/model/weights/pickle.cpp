#include "model/weights/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <unordered_map>

#include "trireme/error.h"
#include "trireme/model.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

constexpr int kNewestProtocol = 5;
// A value takes 128 bytes here and may take only one in the file. No weight file has close to this many.
constexpr size_t kMostValues = 4'000'000;

enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistent = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProtocol = 0x80,
  kNewObject = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTrue = 0x88,
  kFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortUnicode = 0x8c,
  kUnicode8 = 0x8d,
  kBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjectEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

/// The stack machine that executes a pickle.
class Machine {
 public:
  Machine(std::string_view bytes, const std::string& where, std::deque<PickleValue>& values)
      : bytes_(bytes), where_(where), values_(values) {}

  const PickleValue* run() {
    while (true) {
      opcode_at_ = at_;
      const auto opcode = number<uint8_t>();
      if (opcode == kStop) return pop();
      if (!(step_number(opcode) || step_text(opcode) || step_memo(opcode) || step_container(opcode) ||
            step_object(opcode)))
        fail(fmt::format("opcode 0x{:02x}", opcode), "pickles of protocols 2 to 5 do not have it");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& why) const {
    fail_user({.where = where_,
               .what = fmt::format("{} at byte {} of {}", what, opcode_at_, bytes_.size()),
               .why = why,
               .next = "the file is damaged or not from torch.save: get it again or save it anew"});
  }

  // -- reading bytes
  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_)
      fail("pickle cut short", fmt::format("{} bytes must follow, only {} do", count, bytes_.size() - at_));
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("pickle cut short", "a name does not end");
    const std::string_view taken = take(end - at_);
    ++at_;
    return taken;
  }

  // -- the stack
  PickleValue* push(Kind kind) {
    if (values_.size() == kMostValues)
      fail(fmt::format("more than {} values", kMostValues), "no file of weights needs so many");
    PickleValue& value = values_.emplace_back();
    value.kind = kind;
    stack_.push_back(&value);
    return &value;
  }
  size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* top() {
    if (stack_.size() <= bottom()) fail("empty stack", "this opcode needs a value");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  /// Returns the values that were pushed since the last mark.
  std::vector<const PickleValue*> pop_mark() {
    if (marks_.empty()) fail("no mark", "this opcode needs one");
    std::vector<const PickleValue*> values(stack_.begin() + std::ptrdiff_t(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  std::vector<const PickleValue*> pop_count(int count) {
    std::vector<const PickleValue*> values(size_t(count), nullptr);
    for (int i = count; i-- > 0;) values[size_t(i)] = pop();
    return values;
  }

  void add_items(PickleValue* to, const std::vector<const PickleValue*>& items) {
    if (!to->is(Kind::sequence) && !to->is(Kind::object)) fail("items without a list", "this opcode needs a list");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }
  void add_entries(PickleValue* to, const std::vector<const PickleValue*>& items) {
    if (!to->is(Kind::dict) && !to->is(Kind::object)) fail("entries without a dict", "this opcode needs a dict");
    if (items.size() % 2 != 0) fail("a key without a value", "this opcode needs pairs");
    for (size_t i = 0; i < items.size(); i += 2) to->entries.emplace_back(items[i], items[i + 1]);
  }

  void push_integer(int64_t value) { push(Kind::integer)->integer = value; }
  void push_text(uint64_t length) { push(Kind::text)->text = take(length); }
  void push_long(std::string_view digits);
  void push_global(std::string_view module, std::string_view name) {
    push(Kind::global)->text = fmt::format("{}.{}", module, name);
  }
  void push_call(const PickleValue* callee, const PickleValue* arguments);
  void remember(uint64_t index) { memo_[index] = top(); }
  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(fmt::format("memo {}", index), "nothing was stored under it");
    stack_.push_back(found->second);
  }

  // -- the opcodes; each function returns false if it does not know the opcode
  bool step_number(uint8_t opcode);
  bool step_text(uint8_t opcode);
  bool step_memo(uint8_t opcode);
  bool step_container(uint8_t opcode);
  bool step_object(uint8_t opcode);

  std::string_view bytes_;
  const std::string& where_;
  size_t at_ = 0, opcode_at_ = 0;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

/// Two's complement, little-endian, of any length.
void Machine::push_long(std::string_view digits) {
  if (digits.size() > sizeof(int64_t)) {
    push(Kind::other);
    return;
  }
  const bool negative = !digits.empty() && (static_cast<uint8_t>(digits.back()) & 0x80) != 0;
  int64_t value = negative ? -1 : 0;
  std::memcpy(&value, digits.data(), digits.size());
  push_integer(value);
}

bool Machine::step_number(uint8_t opcode) {
  switch (opcode) {
    case kNone: push(Kind::none); return true;
    case kTrue: push(Kind::boolean)->integer = 1; return true;
    case kFalse: push(Kind::boolean); return true;
    case kBinInt: push_integer(number<int32_t>()); return true;
    case kBinInt1: push_integer(number<uint8_t>()); return true;
    case kBinInt2: push_integer(number<uint16_t>()); return true;
    case kLong1: push_long(take(number<uint8_t>())); return true;
    case kLong4: push_long(take(number<uint32_t>())); return true;
    case kBinFloat: push(Kind::real)->real = std::bit_cast<double>(__builtin_bswap64(number<uint64_t>())); return true;
    default: return false;
  }
}

bool Machine::step_text(uint8_t opcode) {
  switch (opcode) {
    case kShortBinString:
    case kShortBinBytes:
    case kShortUnicode: push_text(number<uint8_t>()); return true;
    case kBinString:
    case kBinBytes:
    case kBinUnicode: push_text(number<uint32_t>()); return true;
    case kUnicode8:
    case kBytes8:
    case kByteArray8: push_text(number<uint64_t>()); return true;
    default: return false;
  }
}

bool Machine::step_memo(uint8_t opcode) {
  switch (opcode) {
    case kProtocol: {
      const int protocol = number<uint8_t>();
      if (protocol > kNewestProtocol)
        fail(fmt::format("pickle protocol {}", protocol), fmt::format("the newest known is {}", kNewestProtocol));
      return true;
    }
    case kFrame: number<uint64_t>(); return true;
    case kMark: marks_.push_back(stack_.size()); return true;
    case kPop:
      // as in Python: directly after a mark it removes the mark
      if (!marks_.empty() && stack_.size() == marks_.back()) marks_.pop_back();
      else pop();
      return true;
    case kPopMark: pop_mark(); return true;
    case kDup: stack_.push_back(top()); return true;
    case kBinPut: remember(number<uint8_t>()); return true;
    case kLongBinPut: remember(number<uint32_t>()); return true;
    case kMemoize: remember(memo_.size()); return true;
    case kBinGet: recall(number<uint8_t>()); return true;
    case kLongBinGet: recall(number<uint32_t>()); return true;
    default: return false;
  }
}

bool Machine::step_container(uint8_t opcode) {
  const auto push_sequence = [&](std::vector<const PickleValue*> items) {
    push(Kind::sequence)->items = std::move(items);
  };
  switch (opcode) {
    case kEmptyTuple:
    case kEmptyList:
    case kEmptySet: push_sequence({}); return true;
    case kTuple1:
    case kTuple2:
    case kTuple3: push_sequence(pop_count(opcode - kTuple1 + 1)); return true;
    case kTuple:
    case kList:
    case kFrozenSet: push_sequence(pop_mark()); return true;
    case kEmptyDict: push(Kind::dict); return true;
    case kDict: {
      const auto items = pop_mark();
      add_entries(push(Kind::dict), items);
      return true;
    }
    case kAppend: {
      const auto items = pop_count(1);
      add_items(top(), items);
      return true;
    }
    case kAppends:
    case kAddItems: {
      const auto items = pop_mark();
      add_items(top(), items);
      return true;
    }
    case kSetItem: {
      const auto items = pop_count(2);
      add_entries(top(), items);
      return true;
    }
    case kSetItems: {
      const auto items = pop_mark();
      add_entries(top(), items);
      return true;
    }
    default: return false;
  }
}

bool Machine::step_object(uint8_t opcode) {
  switch (opcode) {
    case kGlobal: {
      const std::string_view module = line(), name = line();
      push_global(module, name);
      return true;
    }
    case kStackGlobal: {
      const auto names = pop_count(2);
      if (!names[0]->is(Kind::text) || !names[1]->is(Kind::text))
        fail("a global without a name", "its names must be strings");
      push_global(names[0]->text, names[1]->text);
      return true;
    }
    case kReduce:
    case kNewObject: {
      const auto call = pop_count(2);
      push_call(call[0], call[1]);
      return true;
    }
    case kNewObjectEx: {
      const auto call = pop_count(3);
      push_call(call[0], call[1]);
      return true;
    }
    case kBuild: {
      const auto state = pop_count(1);
      top()->state = state[0];
      return true;
    }
    case kBinPersistent: {
      const auto id = pop_count(1);
      push(Kind::persistent)->arguments = id[0];
      return true;
    }
    default: return false;
  }
}

void Machine::push_call(const PickleValue* callee, const PickleValue* arguments) {
  if (!arguments->is(Kind::sequence)) fail("a call without arguments", "they must be a tuple");
  if (callee->is(Kind::global) && callee->text == "collections.OrderedDict" && arguments->items.empty()) {
    push(Kind::dict);  // later opcodes fill it
    return;
  }
  PickleValue* object = push(Kind::object);
  object->callee = callee;
  object->arguments = arguments;
}

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    if (entry->first->is(Kind::text) && entry->first->text == key) return entry->second;
  return nullptr;
}

std::string_view PickleValue::callee_name() const {
  return callee && callee->is(Kind::global) ? std::string_view(callee->text) : "";
}

Pickle::Pickle(std::string_view bytes, std::string where) { root_ = Machine(bytes, where, values_).run(); }

}  // namespace trireme
