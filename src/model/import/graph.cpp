#include "model/import/graph.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>

#include <algorithm>

namespace trireme::torchscript {

at::Tensor constant_tensor(const Argument& argument, int64_t batch) {
  const at::Tensor& tensor = argument.constant.toTensor();
  if (argument.repeat_dim < 0) return tensor;
  std::vector<int64_t> repeats(size_t(tensor.dim()), 1);
  repeats[size_t(argument.repeat_dim)] = batch;
  return tensor.repeat(repeats);
}

c10::IValue instantiate(const Argument& argument, int64_t batch, const std::function<at::Tensor(ValueId)>& look_up,
                        const std::function<at::Tensor(const Argument&)>& adapt) {
  switch (argument.kind) {
    case Argument::Kind::value: return look_up(argument.value);
    case Argument::Kind::batch: return argument.constant.toInt() * batch;
    case Argument::Kind::constant:
      return argument.constant.isTensor() && argument.constant.toTensor().defined() ? c10::IValue(adapt(argument))
                                                                                    : argument.constant;
    case Argument::Kind::list: break;
  }
  c10::impl::GenericList list(argument.item_type);
  for (const Argument& item : argument.items) list.push_back(instantiate(item, batch, look_up, adapt));
  return list;
}

int Operator::index_of(std::string_view argument) const {
  const auto it = std::find(argument_names.begin(), argument_names.end(), argument);
  return it == argument_names.end() ? -1 : int(it - argument_names.begin());
}

const Argument* Operator::find(std::string_view argument) const {
  const int index = index_of(argument);
  if (index < 0 || arguments[size_t(index)].is_none()) return nullptr;
  return &arguments[size_t(index)];
}

}  // namespace trireme::torchscript
