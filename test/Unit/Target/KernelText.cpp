#include "KernelText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"

namespace plumb::test {

std::string generic(const std::string &result, const std::string &loops, const std::string &maps,
                    const std::vector<std::string> &inputs, const std::vector<std::string> &inputTypes,
                    const std::string &init, const std::string &type, const std::string &body) {
  auto [parallel, reduction] = llvm::StringRef(loops).split(';');
  std::vector<std::string> iterators, affine, names;
  for (auto [list, kind] : {std::pair(parallel, "\"parallel\""), std::pair(reduction, "\"reduction\"")})
    for (llvm::StringRef name : llvm::split(list, ','))
      if (!name.trim().empty()) {
        names.push_back(name.trim().str());
        iterators.push_back(kind);
      }
  for (llvm::StringRef map : llvm::split(maps, '|'))
    affine.push_back(llvm::formatv("affine_map<({0}) -> ({1})>", llvm::join(names, ", "), map.trim()).str());
  std::string ins =
      inputs.empty()
          ? ""
          : llvm::formatv(" ins({0} : {1})", llvm::join(inputs, ", "), llvm::join(inputTypes, ", ")).str();
  return llvm::formatv(
             "  {0} = linalg.generic {{indexing_maps = [{1}], iterator_types = [{2}]}{3} outs({4} : {5}) {{"
             "{6}  } -> {5}\n",
             result, llvm::join(affine, ", "), llvm::join(iterators, ", "), ins, init, type, body)
      .str();
}

std::string filled(const std::string &name, const std::string &type, const std::string &value,
                   const std::string &element) {
  return llvm::formatv(R"(  {0}_value = arith.constant {2} : {3}
  {0}_empty = tensor.empty() : {1}
  {0} = linalg.fill ins({0}_value : {3}) outs({0}_empty : {1}) -> {1}
)",
                       name, type, value, element)
      .str();
}

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

void expectClose(const std::vector<float> &actual, const std::vector<float> &expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
}

} // namespace plumb::test
