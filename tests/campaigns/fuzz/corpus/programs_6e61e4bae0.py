# 0 1 0
def program(x, y, n):
    n += n
    n = n
    try:
        assert (x[0] > 0.5), 'assured'
        if True:
            raise KeyError('raised')
    except KeyError:
        n = n
    n = n
    return x, [x[0], n]
