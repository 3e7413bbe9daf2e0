#include "plumb/Target/KernelMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/Linker/Linker.h"

using namespace llvm;

namespace plumb::kernels {

/// The functions of libclc, extracted when the compiler is built.
static constexpr unsigned char kLibrary[] = {
#embed PLUMB_DEVICE_MATH
};

/// Whether there are instructions for an intrinsic of floats.
static bool hasInstructions(Intrinsic::ID id) {
  switch (id) {
  case Intrinsic::ceil:
  case Intrinsic::copysign:
  case Intrinsic::fabs:
  case Intrinsic::floor:
  case Intrinsic::fma:
  case Intrinsic::fmuladd:
  case Intrinsic::maximum:
  case Intrinsic::maxnum:
  case Intrinsic::minimum:
  case Intrinsic::minnum:
  case Intrinsic::rint:
  case Intrinsic::roundeven:
  case Intrinsic::sqrt:
  case Intrinsic::trunc:
    return true;
  default:
    return false;
  }
}

/// Of a call that a device cannot make, the name of the function in C without the letter for the type; empty
/// if it can.
static std::string nameOf(const Function &function) {
  Type *type = function.getReturnType();
  if (!function.isIntrinsic())
    return function.getName().drop_back(type->isFloatTy()).str();
  if (!type->isFloatingPointTy() || !Intrinsic::isOverloaded(function.getIntrinsicID()) ||
      hasInstructions(function.getIntrinsicID()))
    return "";
  return Intrinsic::getBaseName(function.getIntrinsicID()).drop_front(strlen("llvm.")).str();
}

/// The name in libclc, which mangles like C++.
static std::string mangle(StringRef name, const Function &function) {
  std::string result = ("_Z" + Twine(name.size()) + name).str();
  for (const Argument &argument : function.args())
    result += argument.getType()->isFloatTy() ? "f" : "d";
  return result;
}

static Expected<std::unique_ptr<Module>> readLibrary(const Module &user) {
  StringRef bitcode(reinterpret_cast<const char *>(kLibrary), sizeof kLibrary);
  auto library = parseBitcodeFile(MemoryBufferRef(bitcode, "libclc"), user.getContext());
  if (!library)
    return library;
  // The functions are portable; only what says for what they were compiled is not.
  (*library)->setDataLayout(user.getDataLayout());
  (*library)->setTargetTriple(user.getTargetTriple());
  for (Function &function : **library) {
    for (const char *attribute :
         {"target-cpu", "target-features", "frame-pointer", "stack-protector-buffer-size"})
      function.removeFnAttr(attribute);
    function.removeFnAttr(Attribute::Convergent);
  }
  return library;
}

Error linkDeviceMath(Module &module) {
  SmallVector<std::pair<Function *, std::string>> missing;
  for (Function &function : module)
    if (function.isDeclaration() && !function.use_empty())
      if (std::string name = nameOf(function); !name.empty())
        missing.emplace_back(&function, name);
  if (missing.empty())
    return Error::success();
  auto library = readLibrary(module);
  if (!library)
    return library.takeError();
  StringSet<> added;
  for (const auto &[function, name] : missing) {
    std::string mangled = mangle(name, *function);
    if (!(*library)->getFunction(mangled))
      return createStringError("a kernel needs the function '" + name + "', which devices do not have");
    function->replaceAllUsesWith(
        module.getOrInsertFunction(mangled, function->getFunctionType()).getCallee());
    function->eraseFromParent();
    added.insert(mangled);
  }
  if (Linker::linkModules(module, std::move(*library), Linker::LinkOnlyNeeded))
    return createStringError("libclc cannot be linked with a kernel");
  for (const auto &name : added)
    module.getFunction(name.getKey())->setLinkage(GlobalValue::InternalLinkage);
  return Error::success();
}

} // namespace plumb::kernels
