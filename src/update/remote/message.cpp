#include "update/remote/message.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "trireme/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "values travel as they lie in memory");

constexpr uint32_t kMagic = 0x4d495254;  // "TRIM"
constexpr uint16_t kVersion = 5;
constexpr size_t kMostDims = 8;

// indexed by the dtype's number in messages
constexpr std::array kDtypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kLong, at::kInt, at::kByte};

/// The front of a message. Counts are numbers of elements.
struct Head {
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint16_t verb = 0;
  uint64_t ticket = 0;
  int32_t shard = 0;
  int32_t operation = 0;
  uint32_t numbers = 0;
  uint32_t text = 0;
  uint32_t tensors = 0;
  uint32_t counted = 0;
};
static_assert(sizeof(Head) == 40);

/// The head of each tensor; its dims follow, int64 each.
struct TensorHead {
  uint32_t dtype = 0, dims = 0;
};

[[noreturn]] void refuse(std::string why) { fail_run({"message", "cannot be read", std::move(why), ""}); }

void append(std::string& bytes, const void* from, size_t count) { bytes.append(static_cast<const char*>(from), count); }

/// Takes the requested bytes from the front, or throws.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::string_view take(size_t bytes, const char* what) {
    if (bytes > rest_.size())
      refuse(fmt::format("{} of {} bytes, but only {} bytes are left", what, bytes, rest_.size()));
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <class T>
  T take_one(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

struct Shaped {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;
  size_t bytes = 0;
};

Shaped read_shape(Reader& reader) {
  const auto head = reader.take_one<TensorHead>("a tensor's head");
  if (head.dtype >= kDtypes.size()) refuse(fmt::format("dtype {}", head.dtype));
  if (head.dims > kMostDims) refuse(fmt::format("a tensor of {} dims", head.dims));
  Shaped shaped{.dtype = kDtypes[head.dtype], .sizes = {}};
  size_t elements = 1;
  for (uint32_t d = 0; d < head.dims; ++d) {
    const auto size = reader.take_one<int64_t>("a dim");
    const size_t left = reader.left();  // the values come last, so no dim is larger
    if (size < 0 || size_t(size) > left || (size > 0 && elements > left / size_t(size)))
      refuse(fmt::format("a dim of {}", size));
    elements *= size_t(size);
    shaped.sizes.push_back(size);
  }
  shaped.bytes = elements * c10::elementSize(shaped.dtype);
  return shaped;
}

}  // namespace

std::string encode(const Message& message) {
  Head head{.verb = uint16_t(message.verb),
            .ticket = message.ticket,
            .shard = message.shard,
            .operation = message.operation,
            .numbers = uint32_t(message.numbers.size()),
            .text = uint32_t(message.text.size()),
            .tensors = uint32_t(message.tensors.size()),
            .counted = message.counted};
  size_t size = sizeof(Head) + message.numbers.size() * sizeof(double) + message.text.size();
  for (const at::Tensor& tensor : message.tensors)
    size += sizeof(TensorHead) + size_t(tensor.dim()) * sizeof(int64_t) + tensor.nbytes();
  std::string bytes;
  bytes.reserve(size);
  append(bytes, &head, sizeof head);
  append(bytes, message.numbers.data(), message.numbers.size() * sizeof(double));
  bytes += message.text;
  for (const at::Tensor& tensor : message.tensors) {
    const auto* dtype = std::find(kDtypes.begin(), kDtypes.end(), tensor.scalar_type());
    check_internal(dtype != kDtypes.end() && size_t(tensor.dim()) <= kMostDims,
                   "tensors of replicas have a dtype and shape that can travel");
    const TensorHead shape{uint32_t(dtype - kDtypes.begin()), uint32_t(tensor.dim())};
    append(bytes, &shape, sizeof shape);
    append(bytes, tensor.sizes().data(), size_t(tensor.dim()) * sizeof(int64_t));
  }
  for (const at::Tensor& tensor : message.tensors) {
    const at::Tensor dense = tensor.to(at::kCPU).contiguous();
    append(bytes, dense.data_ptr(), dense.nbytes());
  }
  return bytes;
}

Message decode(std::string_view bytes) {
  Reader reader(bytes);
  const auto head = reader.take_one<Head>("a head");
  if (head.magic != kMagic) refuse("it is not a Trireme message");
  if (head.version != kVersion)
    refuse(fmt::format("it has version {}, this Trireme uses version {}", head.version, kVersion));
  if (head.verb > uint16_t(kLastVerb)) refuse(fmt::format("verb {}", head.verb));
  Message message{.verb = Verb(head.verb),
                  .ticket = head.ticket,
                  .shard = head.shard,
                  .operation = head.operation,
                  .counted = head.counted != 0};
  const std::string_view numbers = reader.take(size_t(head.numbers) * sizeof(double), "numbers");
  message.numbers.resize(head.numbers);
  if (!numbers.empty()) std::memcpy(message.numbers.data(), numbers.data(), numbers.size());
  message.text = reader.take(head.text, "a text");
  if (size_t(head.tensors) * sizeof(TensorHead) > reader.left())
    refuse(fmt::format("{} tensors in {} bytes", head.tensors, reader.left()));
  std::vector<Shaped> shapes;
  size_t values = 0;
  for (uint32_t t = 0; t < head.tensors; ++t) {
    shapes.push_back(read_shape(reader));
    if (shapes.back().bytes > bytes.size() - values) refuse("tensors larger than the message");
    values += shapes.back().bytes;
  }
  if (values != reader.left()) refuse(fmt::format("tensors of {} bytes in {}", values, reader.left()));
  for (const Shaped& shape : shapes) {
    at::Tensor tensor = at::empty(shape.sizes, shape.dtype);
    const std::string_view raw = reader.take(shape.bytes, "a tensor");
    if (!raw.empty()) std::memcpy(tensor.data_ptr(), raw.data(), raw.size());
    message.tensors.push_back(std::move(tensor));
  }
  return message;
}

}  // namespace trireme
