#include "model/weights/safetensors_header.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kDtypes{{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};
constexpr size_t kMostDims = 64;  // the limit of libtorch's kernels
constexpr const char* kMetadata = "__metadata__";
const char* const kWriteItAnew = "the file is damaged or its writer is at fault: get it again or write it anew";

[[noreturn]] void fail_header(const std::filesystem::path& file, std::string what, std::string why) {
  fail_user({.where = file.string(), .what = std::move(what), .why = std::move(why), .next = kWriteItAnew});
}

/// Iterates over the characters of the header and counts those that the JSON parser has taken, because the parser does
/// not pass positions to its handler.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* taken) : at_(at), taken_(taken) {}
  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* taken_;
};

/// Processes the JSON token by token. Builds nothing that the format does not allow, at any nesting, and detects names
/// that occur twice.
class HeaderHandler {
 public:
  using Json = nlohmann::json;

  HeaderHandler(const std::filesystem::path& file, const size_t& taken) : file_(file), taken_(taken) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() { fail_word("null"); }
  bool boolean(bool value) { fail_word(value ? "true" : "false"); }
  bool number_integer(int64_t value) {
    count_back();
    if (place_ == Place::shape || place_ == Place::offsets)
      fail(fmt::format("{} in {}", value, field()), "a negative number");
    fail_value(std::to_string(value));
  }
  bool number_unsigned(uint64_t value) {
    count_back();
    if (place_ != Place::shape && place_ != Place::offsets) fail_value(std::to_string(value));
    if (place_ == Place::shape) {
      if (value > uint64_t(std::numeric_limits<int64_t>::max()))
        fail(fmt::format("{} in {}", value, field()), "more than 2^63 - 1");
      if (tensor_.shape.size() == kMostDims) fail(field(), fmt::format("more than {} dims", kMostDims));
      tensor_.shape.push_back(int64_t(value));
      return true;
    }
    if (offsets_ == 2) fail(field(), "more than two numbers");
    (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    return true;
  }
  bool number_float(double, const std::string& text) {
    count_back();
    fail_value(text);
  }
  bool binary(Json::binary_t&) { fail_word("binary"); }
  bool string(std::string& value);
  bool key(std::string& value);
  bool start_object(size_t);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  [[noreturn]] bool parse_error(size_t position, const std::string&, const Json::exception& error);

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };
  enum Field { kDtype, kShape, kOffsets, kFields };
  static constexpr std::array<std::string_view, kFields> kFieldNames{"dtype", "shape", "data_offsets"};

  /// The parser detects the end of a number at the next character, which it has then taken too.
  void count_back() { surplus_ = 1; }
  std::string field() const {
    return fmt::format("{} of tensor \"{}\"", kFieldNames[size_t(field_)], printable(name_));
  }
  [[noreturn]] void fail(std::string what, std::string why) const {
    fail_header(file_, fmt::format("{} at byte {}", what, kSafetensorsPrefix + taken_ - surplus_), std::move(why));
  }
  /// Throws for a value whose kind is not allowed at this place.
  [[noreturn]] void fail_value(std::string_view value) const;
  [[noreturn]] void fail_word(std::string_view value) {
    surplus_ = 0;
    fail_value(value);
  }

  const std::filesystem::path& file_;
  const size_t& taken_;
  size_t surplus_ = 0;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  bool has_metadata_ = false;
  std::string name_;    ///< the last key at the top level
  std::string item_;    ///< the last key of the metadata
  int field_ = kDtype;  ///< the last key of a tensor
  std::array<bool, kFields> seen_{};
  StoredTensor tensor_;
  int offsets_ = 0;
};

void HeaderHandler::fail_value(std::string_view value) const {
  const std::string shown = printable(value);
  switch (place_) {
    case Place::outside: fail(shown, "the header must be an object");
    case Place::top: fail(fmt::format("{} for \"{}\"", shown, printable(name_)), "it must be an object");
    case Place::metadata:
      fail(fmt::format("{} for \"{}\" of {}", shown, printable(item_), kMetadata), "it must be a string");
    case Place::tensor:
      fail(fmt::format("{} for {}", shown, field()),
           field_ == kDtype ? "it must be a string" : "it must be an array of whole numbers");
    case Place::shape:
    case Place::offsets: break;
  }
  fail(fmt::format("{} in {}", shown, field()), "it must be a whole number");
}

bool HeaderHandler::string(std::string& value) {
  surplus_ = 0;
  if (place_ == Place::metadata) {
    header_.metadata[item_] = std::move(value);
    return true;
  }
  if (place_ != Place::tensor || field_ != kDtype) fail_value(fmt::format("\"{}\"", printable(value)));
  const auto known =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& dtype) { return dtype.first == value; });
  if (known == kDtypes.end())
    fail(fmt::format("dtype \"{}\" of tensor \"{}\"", printable(value), printable(name_)),
         "only F64, F32, F16, BF16, I64, I32, I16, I8, U8 and BOOL are read");
  tensor_.dtype = known->second;
  return true;
}

bool HeaderHandler::key(std::string& value) {
  surplus_ = 0;
  if (place_ == Place::metadata) {
    if (header_.metadata.contains(value))
      fail(fmt::format("key \"{}\" of {}", printable(value), kMetadata), "it comes twice");
    header_.metadata[value];
    item_ = std::move(value);
    return true;
  }
  if (place_ == Place::top) {
    name_ = std::move(value);
    const bool twice = name_ == kMetadata ? std::exchange(has_metadata_, true) : header_.tensors.contains(name_);
    if (twice) fail(fmt::format("name \"{}\"", printable(name_)), "it comes twice");
    return true;
  }
  const auto known = std::find(kFieldNames.begin(), kFieldNames.end(), value);
  if (known == kFieldNames.end())
    fail(fmt::format("key \"{}\" of tensor \"{}\"", printable(value), printable(name_)),
         "a tensor has dtype, shape and data_offsets only");
  field_ = int(known - kFieldNames.begin());
  if (std::exchange(seen_[size_t(field_)], true)) fail(field(), "it comes twice");
  return true;
}

bool HeaderHandler::start_object(size_t) {
  surplus_ = 0;
  if (place_ == Place::outside) {
    place_ = Place::top;
  } else if (place_ == Place::top) {
    place_ = name_ == kMetadata ? Place::metadata : Place::tensor;
    seen_ = {};
    tensor_ = {};
    offsets_ = 0;
  } else {
    fail_value("{");
  }
  return true;
}

bool HeaderHandler::end_object() {
  surplus_ = 0;
  if (place_ != Place::tensor) {
    place_ = place_ == Place::metadata ? Place::top : Place::outside;
    return true;
  }
  for (int f = 0; f < kFields; ++f)
    if (!seen_[size_t(f)])
      fail(fmt::format("tensor \"{}\"", printable(name_)), fmt::format("it has no {}", kFieldNames[size_t(f)]));
  const std::optional<uint64_t> bytes = tensor_bytes(tensor_.shape, tensor_.dtype);
  const std::string what = fmt::format("tensor \"{}\", {} {}", printable(name_), *safetensors_dtype(tensor_.dtype),
                                       to_string(tensor_.shape));
  if (!bytes) fail(what, "its size in bytes exceeds 2^63 - 1");
  if (tensor_.end < tensor_.begin)
    fail(what, fmt::format("its data_offsets [{}, {}] run backwards", tensor_.begin, tensor_.end));
  if (tensor_.end - tensor_.begin != *bytes)
    fail(what, fmt::format("it needs {} bytes, its data_offsets [{}, {}] span {}", *bytes, tensor_.begin, tensor_.end,
                           tensor_.end - tensor_.begin));
  header_.tensors.emplace(name_, std::move(tensor_));
  place_ = Place::top;
  return true;
}

bool HeaderHandler::start_array(size_t) {
  surplus_ = 0;
  if (place_ != Place::tensor || field_ == kDtype) fail_value("[");
  place_ = field_ == kShape ? Place::shape : Place::offsets;
  return true;
}

bool HeaderHandler::end_array() {
  surplus_ = 0;
  if (place_ == Place::offsets && offsets_ != 2) fail(field(), "it must be two numbers");
  place_ = Place::tensor;
  return true;
}

bool HeaderHandler::parse_error(size_t position, const std::string&, const Json::exception& error) {
  // The parser's message is "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ... -
  // invalid literal; last read: '...'". Keeps the part after the position and before "last read", which may be long and
  // need not be text.
  std::string why = error.what();
  if (const size_t place = why.find(": "); place != std::string::npos) why.erase(0, place + 2);
  why.erase(std::min(why.size(), why.find("; last read")));
  fail_header(file_, fmt::format("header is not valid JSON at byte {}", kSafetensorsPrefix + position), std::move(why));
}

/// Checks that the tensors cover the data, in the order of their offsets. Tensors without elements come before the
/// tensor that starts at the same offset.
void check_cover(const SafetensorsHeader& header, uint64_t data_bytes, uint64_t data_start,
                 const std::filesystem::path& file) {
  using Entry = std::pair<const std::string, StoredTensor>;
  std::vector<const Entry*> order;
  for (const Entry& entry : header.tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t end = 0;
  for (const Entry* entry : order) {
    const auto& [name, tensor] = *entry;
    if (tensor.end > data_bytes)
      fail_header(file,
                  fmt::format("tensor \"{}\" with data_offsets [{}, {}]", printable(name), tensor.begin, tensor.end),
                  fmt::format("there are {} bytes of data, up to byte {}: the file is cut short or its header is wrong",
                              data_bytes, data_start + data_bytes));
    if (tensor.begin != end)
      fail_header(file, fmt::format("tensor \"{}\" at byte {}", printable(name), data_start + tensor.begin),
                  fmt::format("the tensor before it ends at byte {}: {}", data_start + end,
                              tensor.begin < end ? "they overlap" : "there is a hole between them"));
    end = tensor.end;
  }
  if (end != data_bytes)
    fail_header(file, fmt::format("{} surplus bytes at byte {}", data_bytes - end, data_start + end),
                "no tensor lies there");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::filesystem::path& file) {
  if (text.empty() || text.front() != '{')
    fail_header(file, fmt::format("no '{{' at byte {}", kSafetensorsPrefix),
                "that is where a safetensors header begins");
  size_t taken = 0;
  HeaderHandler handler(file, taken);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &taken), CountingIterator(text.data() + text.size(), &taken),
                            &handler);
  SafetensorsHeader header = handler.take();
  check_cover(header, data_bytes, kSafetensorsPrefix + text.size(), file);
  return header;
}

std::optional<std::string_view> safetensors_dtype(at::ScalarType dtype) {
  for (const auto& [name, type] : kDtypes)
    if (type == dtype) return name;
  return std::nullopt;
}

std::optional<uint64_t> tensor_bytes(const Shape& shape, at::ScalarType dtype) {
  // strides are products of all lengths except 0, so these must not overflow either
  int64_t product = int64_t(c10::elementSize(dtype));
  bool empty = false;
  for (int64_t length : shape) {
    if (length < 0) return std::nullopt;
    empty |= length == 0;
    if (length > 0 && __builtin_mul_overflow(product, length, &product)) return std::nullopt;
  }
  return empty ? 0 : uint64_t(product);
}

}  // namespace trireme
