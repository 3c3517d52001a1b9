#include "data/tables/npy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "data/bytes.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionBytes = 2;
constexpr size_t kMaxHeader = 1 << 20;  // bytes; NumPy's own are a few hundred
constexpr int64_t kMaxBytes = int64_t{1} << 48;
constexpr size_t kMaxDims = 64;
const char* const kSaveAgain = "save it again with numpy.save";

[[noreturn]] void fail_npy(const std::string& where, std::string what, std::string why, std::string next = kSaveAgain) {
  fail_user({.where = where, .what = std::move(what), .why = std::move(why), .next = std::move(next)});
}

/// Reads the header's dictionary: three keys with a string, True or False, and a tuple of integers.
class HeaderParser {
 public:
  /// `offset`: position of `text` in the file, for messages.
  HeaderParser(std::string_view text, size_t offset, const std::string& where)
      : text_(text), offset_(offset), where_(where) {}

  void parse(NpyHeader& header) {
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const size_t at = at_;
      const std::string_view key = quoted("key in quotes");
      expect(':');
      if (key == "descr") parse_type(header), once(has_type, key, at);
      else if (key == "fortran_order") header.fortran_order = boolean(), once(has_order, key, at);
      else if (key == "shape") header.shape = tuple(), once(has_shape, key, at);
      else fail(at, fmt::format("unknown key \"{}\"", key));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ < text_.size()) fail(at_, "text after the closing brace");
    for (auto [has, key] : {std::pair{has_type, "descr"}, {has_order, "fortran_order"}, {has_shape, "shape"}})
      if (!has) fail(at_, fmt::format("the header lacks \"{}\"", key));
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& what) const {
    fail_npy(where_, fmt::format("{} at byte {}", what, offset_ + at),
             "a .npy header is a dictionary with descr, fortran_order and shape");
  }

  void once(bool& seen, std::string_view key, size_t at) const {
    if (seen) fail(at, fmt::format("a second \"{}\"", key));
    seen = true;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(at_, fmt::format("no '{}'", c));
  }

  std::string_view quoted(const char* expected) {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail(at_, fmt::format("no {}", expected));
    const size_t begin = at_ + 1, end = text_.find(text_[at_], begin);
    if (end == text_.npos) fail(at_, "a string without closing quote");
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  bool boolean() {
    skip_blanks();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    fail(at_, "neither True nor False");
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      int64_t length = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), length);
      if (error != std::errc() || length < 0) fail(at_, "no valid length of a dim");
      at_ = static_cast<size_t>(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers with an L
      shape.push_back(length);
      if (shape.size() > kMaxDims) fail(at_, fmt::format("more than {} dims", kMaxDims));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  void parse_type(NpyHeader& header) {
    static const std::map<std::string_view, at::ScalarType> kTypes{
        {"f2", at::kHalf}, {"f4", at::kFloat}, {"f8", at::kDouble}, {"i1", at::kChar}, {"i2", at::kShort},
        {"i4", at::kInt},  {"i8", at::kLong},  {"u1", at::kByte},   {"b1", at::kBool}};
    skip_blanks();
    const size_t at = at_;
    const std::string_view descr = quoted("dtype of plain numbers");
    const std::string_view type = descr.empty() ? descr : descr.substr(1);
    if (descr.empty() || std::string_view("<>|=").find(descr[0]) == descr.npos || !kTypes.contains(type))
      fail_npy(where_, fmt::format("dtype \"{}\" at byte {}", descr, offset_ + at),
               "tensors hold float16, float32, float64, int8 to int64, uint8 and bool",
               "convert it before saving, for example with astype(\"float32\")");
    header.type = kTypes.at(type);
    const bool native_is_big = std::endian::native == std::endian::big;
    header.big_endian = descr[0] == '>' || (descr[0] == '=' && native_is_big);
  }

  const std::string_view text_;
  const size_t offset_;
  const std::string& where_;
  size_t at_ = 0;
};

int64_t element_bytes(const NpyHeader& header) { return static_cast<int64_t>(c10::elementSize(header.type)); }

void check_size(const NpyHeader& header, const std::string& where) {
  int64_t bytes = element_bytes(header);
  for (const int64_t length : header.shape) {
    // strides are products of lengths, even if there are no values
    const int64_t factor = std::max<int64_t>(length, 1);
    if (bytes > kMaxBytes / factor)
      fail_npy(where, "shape " + to_string(header.shape), "its values would take more than 2^48 bytes");
    bytes *= factor;
  }
}

void swap_bytes(uint8_t* values, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i, values += width) std::reverse(values, values + width);
}

/// Returns the tensor whose values, row by row (or by columns in Fortran order), are at `bytes`.
at::Tensor make_tensor(const NpyHeader& header, const uint8_t* bytes) {
  const Shape& shape = header.shape;
  Shape stored = shape;
  if (header.fortran_order) std::reverse(stored.begin(), stored.end());
  at::Tensor tensor = at::empty(stored, header.type);
  if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), bytes, tensor.nbytes());
  if (header.big_endian != (std::endian::native == std::endian::big))
    swap_bytes(static_cast<uint8_t*>(tensor.data_ptr()), tensor.numel(), element_bytes(header));
  if (header.type == at::kBool)  // a bool other than 0 or 1 is undefined behaviour
    tensor = tensor.view(at::kByte).ne(0);
  if (!header.fortran_order) return tensor;
  std::vector<int64_t> reversed(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) reversed[d] = static_cast<int64_t>(shape.size() - 1 - d);
  return tensor.permute(reversed).contiguous();
}

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the begin of the header's dictionary, and its end according to its stated length.
std::pair<size_t, size_t> dictionary_extent(std::span<const uint8_t> bytes, const std::string& where) {
  if (!as_text(bytes).starts_with(kMagic)) fail_npy(where, "not a .npy", "a .npy begins with 0x93 and NUMPY");
  const size_t length_at = kMagic.size() + kVersionBytes;
  const uint8_t major = bytes.size() > kMagic.size() ? bytes[kMagic.size()] : 1;
  if (major < 1 || major > 3)
    fail_npy(where, fmt::format("version {} at byte {}", major, kMagic.size()), "versions 1 to 3 are known");
  const size_t begin = length_at + (major == 1 ? 2 : 4);
  if (bytes.size() < begin)
    fail_npy(where, "truncated .npy", fmt::format("{} bytes are less than the front of a header", bytes.size()));
  size_t length = 0;
  for (size_t i = begin; i-- > length_at;) length = length << 8 | bytes[i];  // little endian
  if (length > kMaxHeader)
    fail_npy(where, fmt::format("a header of {} bytes at byte {}", length, length_at), "a valid header is shorter");
  return {begin, begin + length};
}

void check_length(const NpyHeader& header, size_t found, const std::string& where) {
  const size_t expected = header.data_begin + static_cast<size_t>(element_count(header.shape) * element_bytes(header));
  if (found == expected) return;
  fail_npy(where, found < expected ? "truncated .npy" : ".npy with surplus bytes",
           fmt::format("its header requires {} of {} ({} bytes in all), found {} bytes", to_string(header.shape),
                       c10::toString(header.type), expected, found));
}

}  // namespace

NpyHeader parse_npy_header(std::span<const uint8_t> bytes, const std::string& where) {
  const auto [begin, end] = dictionary_extent(bytes, where);
  if (bytes.size() < end)
    fail_npy(where, "truncated .npy", fmt::format("its header ends at byte {}, found {} bytes", end, bytes.size()));
  NpyHeader header;
  header.data_begin = end;
  HeaderParser(as_text(bytes).substr(begin, end - begin), begin, where).parse(header);
  check_size(header, where);
  return header;
}

at::Tensor parse_npy(std::span<const uint8_t> bytes, const std::string& where) {
  const NpyHeader header = parse_npy_header(bytes, where);
  check_length(header, bytes.size(), where);
  return make_tensor(header, bytes.data() + header.data_begin);
}

at::Tensor read_npy(const std::filesystem::path& file) {
  return parse_npy(read_file(file, "check the path"), file.string());
}

}  // namespace trireme
