//===- Compare.cpp - Compares a split run with the unsplit model -------------===//

#include "Compare.h"
#include "plumb/Runtime/TensorFile.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <map>
#include <string_view>
#include <vector>

using namespace plumb;

namespace {

/// The elements of a tensor as doubles.
std::vector<double> values(const TensorView &tensor) {
  std::vector<double> result;
  auto convert = [&]<typename T>(T) {
    for (size_t offset = 0; offset + sizeof(T) <= tensor.data.size(); offset += sizeof(T)) {
      T element;
      std::memcpy(&element, tensor.data.data() + offset, sizeof(T));
      result.push_back(static_cast<double>(element));
    }
  };
  if (tensor.dtype == "F32")
    convert(float());
  else if (tensor.dtype == "F64")
    convert(double());
  else if (tensor.dtype == "I64")
    convert(int64_t());
  else if (tensor.dtype == "I32")
    convert(int32_t());
  else if (tensor.dtype == "F16")
    convert(_Float16());
  else if (tensor.dtype == "I16")
    convert(int16_t());
  else if (tensor.dtype == "I8")
    convert(int8_t());
  else if (tensor.dtype == "BF16")
    for (size_t offset = 0; offset + 2 <= tensor.data.size(); offset += 2) {
      uint16_t bits;
      std::memcpy(&bits, tensor.data.data() + offset, 2);
      result.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    }
  else
    convert(uint8_t());
  return result;
}

/// How two tensors of one shape and type differ.
struct Difference {
  double largest = 0, magnitude = 0; ///< The largest difference, and the largest value of the reference.
  bool isFinite = true;              ///< The same elements are finite.
};

constexpr std::string_view kParameter = "param.";

bool isFloat(const std::string &dtype) { return dtype.find('F') != std::string::npos; }

/// The part of a name that says what a tensor is: `grad` of `grad.fc.weight`.
std::string kindOf(const std::string &name) { return name.substr(0, name.find('.')); }

} // namespace

static Difference compare(const TensorView &actual, const TensorView &expected) {
  std::vector<double> a = values(actual), b = values(expected);
  Difference result;
  for (size_t index = 0; index < b.size(); ++index) {
    result.isFinite &= std::isfinite(a[index]) == std::isfinite(b[index]);
    if (!std::isfinite(a[index]) || !std::isfinite(b[index]))
      continue;
    result.largest = std::max(result.largest, std::abs(a[index] - b[index]));
    result.magnitude = std::max(result.magnitude, std::abs(b[index]));
  }
  return result;
}

bool plumb::compareRuns(const std::string &result, const std::string &reference,
                        const CompareOptions &options, std::ostream &os) {
  TensorFile actual(result), expected(reference);
  std::map<std::string, Difference> differences;
  std::map<std::string, double> scales; // the largest value of each kind
  size_t width = 0;
  for (const auto &[name, tensor] : expected.tensors()) {
    width = std::max(width, name.size());
    const TensorView *other = actual.find(name);
    if (!other || other->shape != tensor.shape || other->dtype != tensor.dtype)
      continue;
    Difference difference = differences[name] = compare(*other, tensor);
    // Counters and buffers of other units are no measure of parameters.
    bool isBuffer = name.starts_with(kParameter) && !expected.find("grad." + name.substr(kParameter.size()));
    if (double &scale = scales[kindOf(name)]; !isBuffer && isFloat(tensor.dtype))
      scale = std::max(scale, difference.magnitude);
  }
  bool equal = true, onlyParameters = true;
  os << std::left << std::setw(static_cast<int>(width)) << "tensor"
     << "  largest difference    largest value\n";
  for (const auto &[name, tensor] : expected.tensors()) {
    os << std::left << std::setw(static_cast<int>(width)) << name << "  ";
    auto found = differences.find(name);
    if (found == differences.end()) {
      os << (actual.find(name) ? "has another shape or type" : "is missing") << "\n";
      equal = onlyParameters = false;
      continue;
    }
    auto [difference, magnitude, finite] = found->second;
    double rounding = options.computesInBF16 || tensor.dtype == "BF16" ? kRoundingBF16
                      : tensor.dtype == "F16"                          ? kRoundingF16
                                                                       : 0;
    double noise = std::max(kNoise, rounding / 256);
    if (options.scalesGradients && name.starts_with(kParameter))
      noise = std::max(noise, kTolerance);
    double allowed = (kTolerance + rounding) * magnitude + noise * scales[kindOf(name)];
    bool good = finite && difference <= allowed;
    os << std::scientific << std::setprecision(2) << std::right << std::setw(18) << difference
       << std::setw(17) << magnitude << (good ? "" : "  DIFFERS") << "\n";
    equal &= good;
    onlyParameters &= good || name.starts_with(kParameter);
  }
  os << (equal ? "equal" : "different") << ": " << expected.tensors().size() << " tensors, tolerance "
     << std::defaultfloat << kTolerance << " of the largest value, and " << kNoise
     << " of the largest of its kind";
  if (options.computesInBF16)
    os << ", and " << kRoundingBF16 << " of the largest value for the rounding of bf16";
  os << "\n";
  if (!equal && onlyParameters && options.scalesGradients)
    os << "note: the losses and all gradients of the first step are equal; this optimizer divides a gradient "
          "by "
          "its own size, so that where it is rounding noise alone the parameter moves by up to the rate. If "
          "a "
          "larger \"eps\" makes them equal, it was that\n";
  return equal;
}
