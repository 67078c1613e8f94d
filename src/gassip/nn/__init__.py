"""Operations as modules: kernels, propagation, nets, and what they weigh."""
