#include "support/strict_device.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/strict_memory.h"

namespace trireme::test {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using torch::jit::Stack;

std::atomic<int64_t> synchronisations{0};

struct StrictGuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    setDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return strict_device(current_strict_device()); }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == type() && device.index() < kStrictDevices, "strict device: there is no ", device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) set_current_strict_device(device.index());
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return getStream(stream.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return kStrictDevices; }
  // A kernel has ended when its call returns, so that events are always over.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void* event, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};

// Static, because the autograd engine counts devices once, at the first backward() of the process.
C10_REGISTER_GUARD_IMPL(PrivateUse1, StrictGuardImpl)

bool is_strict(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

at::Tensor tensor_over(c10::Storage storage, DispatchKey key, const at::Tensor& like) {
  at::Tensor made = at::detail::make_tensor<at::TensorImpl>(std::move(storage), DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return made;
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, c10::optional<at::ScalarType> type,
                         c10::optional<at::Layout> layout, c10::optional<at::Device> device,
                         c10::optional<bool> pinned) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, strict_allocator(), DispatchKeySet(DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(type));
}

/// Gives a device storage more bytes; its first ones are copied from `contents`.
void grow_storage(c10::StorageImpl& storage, size_t bytes, const void* contents, size_t contents_bytes) {
  TORCH_CHECK(storage.resizable(), "strict device: a storage of a fixed size cannot grow");
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr grown = storage.allocator()->allocate(bytes);
  OpenBlocks blocks;
  blocks.open(grown.get());
  if (contents_bytes > 0) std::memcpy(grown.get(), contents, std::min(bytes, contents_bytes));
  storage.set_data_ptr_noswap(std::move(grown));
  storage.set_nbytes(bytes);
}

void resize_tensor(c10::TensorImpl& tensor, at::IntArrayRef sizes, at::OptionalIntArrayRef strides) {
  if (tensor.sizes() == sizes && (!strides || tensor.strides() == *strides)) return;
  if (strides) tensor.set_sizes_and_strides(sizes, *strides);
  else tensor.set_sizes_contiguous(sizes);
  if (tensor.numel() == 0) return;
  c10::StorageImpl& storage = *tensor.unsafe_storage().unsafeGetStorageImpl();
  const size_t bytes = at::detail::computeStorageNbytes(sizes, tensor.strides(), tensor.dtype().itemsize(),
                                                        size_t(tensor.storage_offset()));
  if (bytes <= storage.nbytes()) return;
  OpenBlocks blocks;
  blocks.open(storage.data());
  grow_storage(storage, bytes, storage.data(), storage.nbytes());
}

/// The host's tensors of one call: each is over the memory of a tensor of the device, which is open while this object
/// exists. Tensors with one storage get tensors with one storage, so that kernels see overlaps.
class HostTensors {
 public:
  at::Tensor of(const at::Tensor& device_tensor);
  /// Gives sizes, strides and memory to the device's tensors whose host tensors a kernel has resized.
  void take_over_resizes(const char* op);
  /// The device's tensor for a kernel's result: an argument, a view of one, or a copy of a new tensor.
  at::Tensor result(const at::Tensor& host, c10::Device device);

 private:
  struct TensorPair {
    at::Tensor device, host;
  };
  struct StoragePair {
    c10::Storage device, host;
  };
  const StoragePair& storage_of(const at::Tensor& device_tensor);

  OpenBlocks blocks_;
  std::vector<TensorPair> tensors_;
  std::vector<StoragePair> storages_;
};

const HostTensors::StoragePair& HostTensors::storage_of(const at::Tensor& device_tensor) {
  const c10::Storage& storage = device_tensor.storage();
  for (const StoragePair& pair : storages_)
    if (pair.device.is_alias_of(storage)) return pair;
  blocks_.open(storage.data());
  c10::DataPtr borrowed(storage.data(), c10::Device(c10::DeviceType::CPU));
  c10::Storage host(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(borrowed), c10::GetCPUAllocator(),
                    storage.resizable());
  return storages_.emplace_back(StoragePair{storage, std::move(host)});
}

at::Tensor HostTensors::of(const at::Tensor& device_tensor) {
  for (const TensorPair& pair : tensors_)
    if (pair.device.is_same(device_tensor)) return pair.host;
  at::Tensor host = tensor_over(storage_of(device_tensor).host, DispatchKey::CPU, device_tensor);
  c10::TensorImpl* impl = host.unsafeGetTensorImpl();
  if (device_tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  tensors_.push_back({device_tensor, host});
  return host;
}

void HostTensors::take_over_resizes(const char* op) {
  for (const StoragePair& pair : storages_)
    if (pair.host.data() != pair.device.data())
      grow_storage(*pair.device.unsafeGetStorageImpl(), pair.host.nbytes(), pair.host.data(), pair.host.nbytes());
  for (const TensorPair& pair : tensors_) {
    TORCH_CHECK(storage_of(pair.device).host.is_alias_of(pair.host.storage()), "strict device: ", op,
                " gave an argument another storage, which needs a kernel of its own here");
    if (pair.host.sizes() == pair.device.sizes() && pair.host.strides() == pair.device.strides()) continue;
    pair.device.unsafeGetTensorImpl()->set_sizes_and_strides(pair.host.sizes(), pair.host.strides(),
                                                             pair.host.storage_offset());
  }
}

at::Tensor HostTensors::result(const at::Tensor& host, c10::Device device) {
  if (!host.defined()) return host;
  for (const TensorPair& pair : tensors_)
    if (pair.host.is_same(host)) return pair.device;
  for (const StoragePair& pair : storages_)
    if (pair.host.is_alias_of(host.storage())) return tensor_over(pair.device, DispatchKey::PrivateUse1, host);
  at::Tensor copy = empty_strided(host.sizes(), host.strides(), host.scalar_type(), {}, device, {});
  OpenBlocks blocks;
  blocks.open(copy.data_ptr());
  if (copy.numel() > 0) std::memcpy(copy.data_ptr(), host.data_ptr(), copy.storage().nbytes());
  return copy;
}

/// One call of an operator for which the device has no kernel of its own.
class CallOnHost {
 public:
  CallOnHost(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
  c10::IValue argument(const c10::IValue& value, const c10::Argument& declared);
  void end() { tensors_.take_over_resizes(op_.schema().name().c_str()); }
  c10::IValue result(const c10::IValue& value);

 private:
  void note_device(const at::Tensor& tensor);
  at::Tensor host_tensor(const at::Tensor& tensor, bool may_be_on_host);

  const c10::OperatorHandle& op_;
  std::optional<c10::Device> device_;  // of all tensors
  HostTensors tensors_;
};

CallOnHost::CallOnHost(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) : op_(op) {
  for (const c10::IValue& value : arguments) {
    if (value.isTensor()) {
      note_device(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) note_device(tensor);
    } else if (value.isList()) {
      for (const c10::IValue& element : value.toListRef())
        if (element.isTensor()) note_device(element.toTensor());
    }
  }
}

void CallOnHost::note_device(const at::Tensor& tensor) {
  if (!is_strict(tensor)) return;
  TORCH_CHECK(!device_ || *device_ == tensor.device(), "strict device: ", op_.operator_name(), " mixes tensors of ",
              *device_, " and of ", tensor.device(), "; expected all tensors to be on the same device");
  device_ = tensor.device();
}

at::Tensor CallOnHost::host_tensor(const at::Tensor& tensor, bool may_be_on_host) {
  if (is_strict(tensor)) return tensors_.of(tensor);
  TORCH_CHECK(!tensor.defined() || !device_ || may_be_on_host, "strict device: ", op_.operator_name(),
              " mixes tensors of ", *device_, " and of ", tensor.device(),
              "; expected all tensors to be on the same device");
  return tensor;
}

c10::IValue CallOnHost::argument(const c10::IValue& value, const c10::Argument& declared) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    const bool is_written = declared.alias_info() && declared.alias_info()->isWrite();
    return host_tensor(tensor, tensor.defined() && tensor.dim() == 0 && !is_written);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(host_tensor(tensor, false));
    return tensors;
  }
  if (value.isOptionalTensorList()) {  // indices, which may be on the host for CUDA too
    c10::List<c10::optional<at::Tensor>> tensors;
    for (const c10::optional<at::Tensor>& index : value.toOptionalTensorVector()) {
      if (index && is_strict(*index) && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte))
        ++synchronisations;  // the host must know the number of elements
      tensors.push_back(index ? c10::make_optional(host_tensor(*index, true)) : c10::nullopt);
    }
    return tensors;
  }
  if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) {
    if (!device_) device_ = value.toDevice();
    return c10::Device(c10::DeviceType::CPU);
  }
  return value;
}

c10::IValue CallOnHost::result(const c10::IValue& value) {
  const c10::Device device = device_.value_or(strict_device(current_strict_device()));
  if (value.isTensor()) return tensors_.result(value.toTensor(), device);
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> tensors;
  for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensors_.result(tensor, device));
  return tensors;
}

/// Operators that wait for a GPU, because the host must know a value or the size of a result.
bool is_synchronisation(const std::string& op) {
  static constexpr std::array kNames = {"aten::equal",    "aten::nonzero",           "aten::masked_select",
                                        "aten::_unique",  "aten::_unique2",          "aten::unique_dim",
                                        "aten::bincount", "aten::unique_consecutive"};
  return std::find(kNames.begin(), kNames.end(), op) != kNames.end();
}

void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  const size_t first = stack->size() - declared.size();
  CallOnHost call(op, c10::ArrayRef<c10::IValue>(stack->data() + first, declared.size()));
  for (size_t i = 0; i < declared.size(); ++i) (*stack)[first + i] = call.argument((*stack)[first + i], declared[i]);
  if (is_synchronisation(op.schema().name())) ++synchronisations;
  op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  call.end();
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
    (*stack)[i] = call.result((*stack)[i]);
}

at::Tensor empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type, c10::optional<at::Layout> layout,
                 c10::optional<at::Device> device, c10::optional<bool> pinned, c10::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, strict_allocator(), DispatchKeySet(DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef sizes, c10::optional<at::MemoryFormat> format) {
  resize_tensor(*self.unsafeGetTensorImpl(), sizes, {});
  if (format) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                         at::IntArrayRef strides) {
  at::native::checkSetStorage(self, source, offset, sizes, strides);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  resize_tensor(*self.unsafeGetTensorImpl(), sizes,
                strides.data() ? at::OptionalIntArrayRef(strides) : at::OptionalIntArrayRef());
  return self;
}

at::Tensor& set_whole_storage_(at::Tensor& self, at::Storage source) {
  const int64_t size = int64_t(source.nbytes() / self.dtype().itemsize());
  return set_storage_(self, std::move(source), 0, {size}, {});
}

at::Tensor& set_tensor_(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing_(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, strict_allocator()->allocate(0), strict_allocator(), true);
  return set_storage_(self, std::move(nothing), 0, {0}, {});
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (is_strict(source) && !is_strict(self)) ++synchronisations;
  HostTensors tensors;
  at::Tensor to = is_strict(self) ? tensors.of(self) : self;
  to.copy_(is_strict(source) ? tensors.of(source) : source);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  at::Tensor written = to;
  return copy_(written, self, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  ++synchronisations;
  HostTensors tensors;
  return at::_local_scalar_dense(tensors.of(self));
}

void record_stream(at::Tensor& self, c10::Stream stream) {}

at::Tensor convolution_overrideable(const at::Tensor& input, const at::Tensor& weight,
                                    const c10::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                    at::IntArrayRef output_padding, int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> mask) {
  const std::vector<int64_t> bias = {grad_output.size(1)};
  return at::convolution_backward(grad_output, input, weight, bias, stride, padding, dilation, transposed,
                                  output_padding, groups, mask);
}

void register_own_kernels(torch::Library& aten) {
  aten.impl("empty.memory_format", &empty);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("as_strided", &at::native::as_strided_tensorimpl);
  aten.impl("view", &at::native::view);
  aten.impl("_reshape_alias", &at::native::_reshape_alias);
  aten.impl("unfold", &at::native::unfold);
  aten.impl("resize_", &resize_);
  aten.impl("set_.source_Storage_storage_offset", &set_storage_);
  aten.impl("set_.source_Storage", &set_whole_storage_);
  aten.impl("set_.source_Tensor", &set_tensor_);
  aten.impl("set_", &set_nothing_);
  aten.impl("copy_", &copy_);
  aten.impl("_copy_from", &copy_from);
  aten.impl("_copy_from_and_resize", &copy_from_and_resize);
  aten.impl("_local_scalar_dense", &local_scalar);
  aten.impl("record_stream", &record_stream);
  aten.impl("convolution_overrideable", &convolution_overrideable);
  aten.impl("convolution_backward_overrideable", &convolution_backward_overrideable);
}

/// libtorch prefers its general kernels, made of other operators, to a fall-back. Where the CPU has a kernel of its
/// own, the general one would give other bits.
void register_host_kernels(torch::Library& aten) {
  const auto run = [&](const std::string& name) {
    aten.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  };
  for (const char* name : {"convolution", "_convolution", "convolution_backward"}) run(name);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || name.getNamespace() != c10::optional<c10::string_view>("aten")) continue;
    if (!op->hasSchema() || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) continue;
    if (!op->hasKernelForDispatchKey(DispatchKey::CPU)) continue;
    if (op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional))
      run(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name);
  }
}

}  // namespace

void install_strict_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_strict_memory();
    c10::SetAllocator(c10::DeviceType::PrivateUse1, strict_allocator());
    // Never destroyed, because static tensors may be used after it.
    const auto library = [](const char* name_space) {
      return new torch::Library(torch::Library::IMPL, name_space, DispatchKey::PrivateUse1, __FILE__, __LINE__);
    };
    static torch::Library& aten = *library("aten");
    static torch::Library& all = *library("_");
    register_own_kernels(aten);
    register_host_kernels(aten);
    all.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  });
}

int64_t strict_synchronisations() { return synchronisations; }

}  // namespace trireme::test
