"""Learning rates of steps. Runs under cellc and under MindSpore."""


def run(ms, nn, expression):
    rates = eval(expression, {"nn": nn})
    if isinstance(rates, list):
        return rates
    return [float(rates(ms.Tensor(i, ms.int32)).asnumpy()) for i in (0, 1, 2, 3, 5, 9)]
